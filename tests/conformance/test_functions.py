"""Every function of the interpreter has a compiled form that agrees with it on values at the edges, errors included.

A share of the combinations of types by default; all of them with VIEWLET_FUNCTIONS=full.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import viewlet
from tests.conformance import functions
from tests.conformance.functions import TABLES
from tests.spark_plan.compiled_cluster import CompiledCluster
from tests.spark_plan.distributing import Reference
from viewlet.algebra.functions import FUNCTIONS
from viewlet.changes import RowChange
from viewlet.codegen.engine import CompiledEngine
from viewlet.errors import DataError
from viewlet.spark.plan.compile import compile_distributed
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore
from viewlet.types import Row

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
FULL = os.environ.get("VIEWLET_FUNCTIONS") == "full"
SHARE = 1 if FULL else 9
MOST_ROWS = 1_000 if FULL else 12
NOT_IN_SQL = {"nullif", "is_true"}
"""NULLIF is bound as CASE, and IS TRUE stands around subqueries only."""

Outcome = dict[str, int] | type[DataError]


def some_rows(text: str) -> list[Row]:
    rows = functions.rows(text)
    return rows[:: max(1, len(rows) // MOST_ROWS)]


def on_compiled(engine: CompiledEngine, row: Row) -> Outcome:
    engine.clear()
    try:
        engine.apply("z", RowChange({row: 1}))
        return shown(engine.result())
    except DataError:
        return DataError


def on_interpreter(program: Program, row: Row) -> Outcome:
    stores = {"z": MapStore()}
    interpreter = Interpreter(program, stores)
    interpreter.load()
    try:
        interpreter.apply("z", RowChange({row: 1}))
        stores["z"].add(row, (1,))
        interpreter.finish()
        return shown(interpreter.result())
    except DataError:
        return DataError


def shown(rows: dict[Row, int]) -> dict[str, int]:
    """By their text, which tells 1 from True, and with the digits of a double that count."""
    return {
        repr(tuple(float(f"{v + 0.0:.14g}") if isinstance(v, float) else v for v in row)): n for row, n in rows.items()
    }


def is_beyond_words(outcome: Outcome) -> bool:
    """A number that the compiled engine has no word for: it refuses what the interpreter can hold."""
    numbers = [] if isinstance(outcome, type) else re.findall(r"\d{19,}", "".join(outcome))
    return any(int(number) >= 2**63 for number in numbers)


def differences(text: str, program: Program) -> list[str]:
    engine, found = CompiledEngine(program, TABLES), []
    for row in some_rows(text):
        expected, actual = on_interpreter(program, row), on_compiled(engine, row)
        if actual != expected and not (actual is DataError and is_beyond_words(expected)):
            given = {name: row[list(functions.DOMAINS).index(name)] for name in functions.columns_of(text)}
            found.append(f"{text} of {given}: {actual}, not {expected}")
    return found


def test_the_compiled_engine_agrees_with_the_interpreter() -> None:
    called, found = set[str](), []
    for text in functions.expressions(SHARE):
        program = functions.program_of(text)
        called |= functions.functions_of(program)
        found += differences(text, program)
    assert not found, "\n".join(found[:60])
    assert set(FUNCTIONS) - called == NOT_IN_SQL


def test_blocks_of_spark_agree_with_the_interpreter() -> None:
    """Several expressions in one view, over rows that none of them fails for."""
    texts = [text for text in functions.expressions(SHARE) if "SELECT o.t" not in text][:: 1 if FULL else 4]
    for start in range(0, len(texts), 8):
        chosen = texts[start : start + 8]
        programs = [functions.program_of(text) for text in chosen]
        rows = [row for row in some_rows(" ".join(chosen[:2])) if not any(fails(p, row) for p in programs)]
        program = functions.program_of(*chosen)
        cluster = CompiledCluster(compile_distributed(program, TABLES), TABLES, 2)
        reference = Reference(program, TABLES)
        for batch in (dict.fromkeys(rows[::2], 1), dict.fromkeys(rows, 2), dict.fromkeys(rows[1::2], -1)):
            expected = reference.apply({"z": batch})
            cluster.apply({"z": batch})
            assert shown(cluster.result()) == shown(expected), chosen  # type: ignore[arg-type]


def fails(program: Program, row: Row) -> bool:
    outcome = on_interpreter(program, row)
    return outcome is DataError or is_beyond_words(outcome)


LEAVES_ITS_TYPE = [
    ("SMALLINT", "round(x, -1)", 32_767),
    ("INTEGER", "round(x, -1)", 2_147_483_647),
    ("INTEGER", "round(x, y)", -2_147_483_648),
    ("BIGINT", "round(x, -3)", 2**63 - 1),
    ("INTEGER", "x // y", -2_147_483_648),
    ("SMALLINT", "-x", -32_768),
    ("SMALLINT", "abs(x)", -32_768),
]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize(("type", "text", "value"), LEAVES_ITS_TYPE)
def test_no_function_leaves_its_type(type: str, text: str, value: int, engine: str) -> None:
    """Two hundred is a number near it that stays within."""
    with viewlet.connect(engine=engine) as db:
        db.execute(f"CREATE TABLE n (x {type}, y INTEGER)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {text} AS r, COUNT(*) AS c FROM n GROUP BY {text}")
        with pytest.raises(DataError, match=f"out of range for {type}"):
            db.insert("n", [(value, -1)])
        db.insert("n", [(200, -1)])
        assert [abs(number) for number, _ in db.view("v").rows()] == ([0] if "-3" in text else [200])


def test_rounding_a_whole_decimal_has_room_for_one_more_digit() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE n (x DECIMAL(3,0))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT round(x, -1) AS r FROM n")
        db.insert("n", [(995,), (-999,)])
        assert sorted(db.view("v").rows()) == [(-1000,), (1000,)]


def test_a_failure_takes_the_batch_back() -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE a (k BIGINT, s VARCHAR, t VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT t, SUM(CAST(s AS INTEGER)) AS n FROM a GROUP BY t")
    db.insert("a", [(1, "1", "not a number"), (2, "2", "not a number")])
    with pytest.raises(DataError, match="not a number: 'one'"):
        db.insert("a", [(3, "3", "x"), (4, "one", "x")])
    assert db.view("v").rows() == [("not a number", 3)]
    db.insert("a", [(5, "5", "x")])
    assert db.view("v").rows() == [("not a number", 3), ("x", 5)]


SCRIPT = """
import datetime, viewlet
columns = [{columns}]
results = []
for engine in ("interpreter", "compiled"):
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE z (i INTEGER, k BIGINT, d DECIMAL(6,2), x DOUBLE, s VARCHAR, t VARCHAR, p DATE)")
    keys = ", ".join(f"{{text}} AS y{{i}}" for i, text in enumerate(columns))
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {{keys}}, COUNT(*) AS n FROM z GROUP BY ALL")
    days = datetime.date(2024, 2, 29), datetime.date(1899, 12, 31), None
    for batch in range(3):
        db.insert("z", [(i - 5, i * 7 + batch, f"{{i}}.2{{i % 10}}", i / 4 - 2, f"s{{i}}", f"t{{batch}}", days[i % 3])
                        for i in range(12)])
    db.insert("z", [(None,) * 7])
    results.append(db.view("v").rows())
    try:
        db.insert("z", [(0, 1, None, 1e12, None, None, None)])
    except viewlet.DataError as error:
        results[-1].append(str(error))
assert results[0] == results[1], results
assert len(results[0]) == 38, results[0]
"""


@pytest.mark.slow
def test_machine_code() -> None:
    pytest.importorskip("numba")
    columns = (
        "s || t", "concat(s, k)", "k % i", "greatest(i, k)", "round(d, 1)", "round(x)", "extract(week FROM p)",
        "date_trunc('quarter', p)", "p + INTERVAL 1 MONTH", "s < t", "CAST(k * 4 AS VARCHAR)", "CAST(x AS INTEGER)",
        "upper(s)",
    )  # fmt: skip
    script = SCRIPT.format(columns=", ".join(map(repr, columns)))
    environment = {**os.environ, "VIEWLET_JIT": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
