"""Arguments of any type for everything that users call: each call works, or is refused by an error of ours.

`VIEWLET_FUZZ_ROUNDS=100 VIEWLET_FUZZ_SEED=1 pytest tests/fuzz/test_arguments.py` makes more of them. Afterwards the
connection still works, if no call has closed it.
"""

from __future__ import annotations

import contextlib
import datetime
import inspect
import math
import os
import pathlib
import random
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import viewlet
from tests.patience import at_most
from viewlet import linalg, signals

ROUNDS = int(os.environ.get("VIEWLET_FUZZ_ROUNDS", "6"))
SEED = int(os.environ.get("VIEWLET_FUZZ_SEED", "11"))
SCHEMA = """
CREATE TABLE t (k BIGINT, s VARCHAR(3)); CREATE STREAM st (k BIGINT); CREATE TABLE l (a BIGINT, b BIGINT, w DOUBLE);
CREATE STREAM p (ts TIMESTAMP, n BIGINT) PARTITION LENGTH 60 BY ts;
CREATE TABLE r (m VARCHAR NOT NULL, at BIGINT NOT NULL, g DOUBLE);
CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s;
CREATE MATERIALIZED VIEW sv AS SELECT SUM(k) AS k FROM st;
CREATE MATERIALIZED VIEW f AS SELECT FACTORIZED k, a, b FROM t JOIN l ON k = a;
CREATE MATERIALIZED VIEW c AS SELECT COFACTOR(g) FROM r
"""


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


PLAIN: list[Any] = [None, 0, 1, -1, 2**63, 10**400, 1.5, math.nan, math.inf, True, "", "x", "v", "t", "p", "\0", "a\nb"]
PLAIN += ["\ud800", "é" * 300, "select", b"x", bytearray(b"x"), [], {}, (), set(), [1], [(1,)], [None], [[]], {"a": 1}]
PLAIN += [{"t": [(1, 1)]}, {"t": None}, {1: 2}, {None: 1}, lambda *a, **k: None, object(), Unprintable(), range(3)]
PLAIN += [datetime.datetime(2020, 1, 1), datetime.date.max, datetime.timedelta(1), Decimal("NaN"), Decimal("1e999999")]
PLAIN += [complex(1, 2), np.float64("nan"), np.int64(3), pathlib.Path("x"), int, Exception(), "1e999999999", '"t"']
PLAIN += ["t; --", "T", "2020-01-01", "9999-12-31 23:59:59.999999", [("2020-01-01 00:00:00", 1)], "1s", "-1s", "1e300h"]
PLAIN += [frozenset(["t"]), slice(1, 2), NotImplemented, ...]
TABLES: list[Any] = [np.array([1, 2]), pd.DataFrame({"k": [1]}), pa.table({"k": [1]})]
"""These have no truth value, so that NumPy and pandas refuse them as flags by errors of their own."""
LIKELY = {"table": ["t", "st", "p", "r", "l"], "stream": ["p", "st"], "name": ["v", "t", "p", "c", "f", "nn", "A", "C"]}


def opened() -> viewlet.Connection:
    db = viewlet.connect(engine="interpreter")
    db.execute(SCHEMA)
    db.stream_view("h", initialize="SELECT SUM(n)::BIGINT AS n FROM p[i]")
    db.insert("t", [(1, "a")])
    return db


def methods(owner: object, label: str, *special: str) -> Iterator[tuple[str, Any]]:
    for name in sorted({*dir(owner), *special}):
        if name in special or not name.startswith("_"):
            found = inspect.getattr_static(owner, name)
            if callable(found) or isinstance(found, classmethod | staticmethod):
                yield f"{label}.{name}", getattr(owner, name)


def calls(db: viewlet.Connection) -> Iterator[tuple[str, Any]]:
    for name in ("connect", "product", "as_products", "changes_of"):
        yield name, getattr(viewlet, name)
    yield from ((name, each) for name, each in methods(db, "db") if name not in ("db.close", "db.settle"))
    for name in ("v", "h", "f", "c", "sv"):
        yield from methods(db.view(name), f"view {name}")
    signal = db.signal("r", key="m", time="at", value="g")
    yield from methods(signal, "signal")
    yield from methods(signal.sample(10, "linear", max_gap=100), "samples")
    matrix = linalg.matrix("A", linalg.dim("n"), linalg.dim("n"))
    yield from methods(matrix, "matrix", "__add__", "__mul__", "__matmul__", "__truediv__", "__pow__")
    program = linalg.program("input A(n, n); C := A * A;")
    yield from methods(program, "program")
    yield from methods(program.start(A=np.eye(3)), "run")
    for module in (linalg, signals):
        for name in module.__all__:
            each = getattr(module, name)
            if callable(each) and not (isinstance(each, type) and issubclass(each, BaseException)):
                yield f"{module.__name__}.{name}", each


def arguments(call: Callable[..., object], rng: random.Random) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for each in inspect.signature(call).parameters.values():
        values = PLAIN if "bool" in str(each.annotation) or each.name == "definite" else PLAIN + TABLES
        value = rng.choice(LIKELY[each.name] if each.name in LIKELY and rng.random() < 0.6 else values)
        if each.kind is each.VAR_POSITIONAL:
            positional += [] if named else rng.choices(values, k=rng.randrange(3))
        elif each.kind is not each.VAR_KEYWORD and each.name != "spark":
            if each.default is not each.empty or each.kind is each.KEYWORD_ONLY:
                if each.default is each.empty or rng.random() < 0.3:
                    named[each.name] = value
            else:
                positional.append(value)
    return positional, named


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.filterwarnings("ignore")
def test_arguments_of_any_type(number: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng, db, wrong = random.Random(f"{SEED} {number}"), opened(), []
    for label, call in list(calls(db)):
        positional, named = arguments(call, rng)
        try:
            with at_most(20):
                call(*positional, **named)
        except viewlet.InternalError as error:
            wrong.append(f"{label}: {error}")
        except viewlet.ViewletError:
            pass
        except Exception as error:
            if isinstance(error, TypeError) and (error.__traceback__ is None or error.__traceback__.tb_next is None):
                continue  # Python itself says that there are too many arguments
            place = traceback.extract_tb(error.__traceback__)[-1]
            types = [type(each).__name__ for each in positional], {name: type(each) for name, each in named.items()}
            wrong.append(f"{label}{types}: {type(error).__name__}: {error} ({place.filename}:{place.lineno})")
    assert not wrong, "\n".join(wrong)
    with contextlib.suppress(viewlet.SchemaError):  # a statement may have dropped the table
        db.insert("t", [(5, "z")])


def test_subscribers_are_functions() -> None:
    db = opened()
    with pytest.raises(viewlet.DataError, match="takes a function"):
        db.view("v").subscribe("x")  # type: ignore[arg-type]
    run = linalg.program("input A(n, n); C := A * A;").start(A=np.eye(3))
    with pytest.raises(viewlet.ViewletError, match="takes a function"):
        run.subscribe("C", 5)  # type: ignore[arg-type]
    cancel = run.subscribe("C", lambda change: None)
    cancel()
    cancel()
    assert db.insert("t", [(2, "b")]) == 2
