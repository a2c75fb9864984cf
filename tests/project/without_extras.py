"""Tries, in a process that finds none of the libraries that extras bring, everything that needs one of them.

Prints what two views show, then a line for each attempt: its name and what it was told.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import viewlet

LIBRARIES = {"scipy", "pyspark", "pandas", "polars", "fsspec", "xarray"}


class Missing:
    """A finder that says of these libraries that they are not there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in LIBRARIES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide_libraries() -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name.partition(".")[0] in LIBRARIES else found(name, package)

    importlib.util.find_spec = find_spec
    sys.meta_path.insert(0, Missing())  # type: ignore[arg-type]


def database() -> viewlet.Connection:
    db = viewlet.connect()
    db.execute("CREATE TABLE e (a BIGINT, b BIGINT, t TIMESTAMP, v DOUBLE)")
    db.execute("CREATE STREAM p (ts TIMESTAMP, g BIGINT) PARTITION LENGTH 60 BY ts")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT a, COUNT(*) AS n FROM e GROUP BY a")
    db.execute("CREATE VIEW w AS SELECT g, COUNT(*) AS n FROM p [WINDOW 5 MINUTES] GROUP BY g")
    db.insert("e", [(1, 2, None, 1.5)])
    db.insert("p", [("2024-01-01 00:00:01", 7), ("2024-01-01 00:01:01", 7)])
    return db


SAMPLES = "SELECT * FROM SAMPLE(e, KEY => a, TIME => t, VALUE => v, PERIOD => '1s')"


def attempts(db: viewlet.Connection) -> dict[str, Callable[[], object]]:
    return {
        "linalg": lambda: importlib.import_module("viewlet.linalg"),
        "program": lambda: db.program("q", None, A="e"),  # type: ignore[arg-type]
        "signals": lambda: importlib.import_module("viewlet.signals"),
        "signal": lambda: db.signal("e", key="a", time="t", value="v"),
        "sample": lambda: db.execute(f"CREATE MATERIALIZED VIEW x AS {SAMPLES}"),
        "ml": lambda: importlib.import_module("viewlet.ml"),
        "spark": lambda: viewlet.connect(spark="local[1]"),
        "session": lambda: viewlet.spark_session(),
        "format": lambda: viewlet.register_format(None),
        "matrices": lambda: importlib.import_module("viewlet.spark.matrices"),
        "pandas": lambda: db.view("s").to_pandas(),
        "polars": lambda: db.view("s").to_polars(),
        "remote": lambda: viewlet.connect("s3://bucket/folder"),
    }


def answer(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except viewlet.MissingExtraError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing is missing"


if __name__ == "__main__":
    hide_libraries()
    made = database()
    print(made.view("s").rows(), [row[:2] for row in made.view("w").rows()])
    for name, attempt in attempts(made).items():
        print(name, answer(attempt))
