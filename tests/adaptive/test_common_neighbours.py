"""Common neighbours of an edge: the third vertices of its triangles, on every engine, from parts of every kind."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.adaptive.streams import STREAMS
from viewlet.connection.spark_facade import connect_inline

SCHEMA = """
CREATE STREAM r (a BIGINT NOT NULL, b BIGINT NOT NULL);
CREATE STREAM s (b BIGINT NOT NULL, c BIGINT NOT NULL);
CREATE STREAM t (c BIGINT NOT NULL, a BIGINT NOT NULL);
"""
LISTED = "SELECT s.c AS z, r.a AS x, r.b AS y FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"


def feed(db: Any, changes: Any) -> None:
    rows: dict[str, list[Any]] = {"r": [], "s": [], "t": []}
    for relation, first, second, times in changes:
        names = (("a", "b"), ("b", "c"), ("c", "a"))[relation]
        rows["rst"[relation]].append({names[0]: first, names[1]: second, "_multiplicity": times})
    db.apply(rows)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("stream", ["power_law", "uniform"])
def test_they_are_the_third_vertices_of_the_listed_triangles(engine: str, stream: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute(SCHEMA)
    db.execute(f"CREATE MATERIALIZED VIEW l WITH (strategy = 'adaptive', epsilon = 0.4) AS {LISTED}")
    changes = list(islice(STREAMS[stream](Random(2), 90), 90))
    for begin, end in pairwise(range(0, 91, 30)):
        feed(db, changes[begin:end])
        listed = set(db.view("l").rows())
        steps = db.view("l").stats()["steps"]
        for at, given in ((0, ("x", "y")), (1, ("z", "y")), (2, ("x", "z"))):
            places = [("z", "x", "y").index(name) for name in given]
            for values in {tuple(row[place] for place in places) for row in listed} | {(0, 0), (77, 1)}:
                expected = sorted({row[at] for row in listed if tuple(row[i] for i in places) == values})
                found = db.view("l").common_neighbours(**dict(zip(given, values, strict=True)))
                assert found == expected
        assert db.view("l").stats()["steps"] == steps
    assert listed


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_hub_with_more_than_the_first_guess(engine: str) -> None:
    """The answer is longer than the room that is made for it at first; texts are told as texts."""
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE e (a VARCHAR NOT NULL, b VARCHAR NOT NULL)")
    db.execute("""
        CREATE MATERIALIZED VIEW l WITH (strategy = 'adaptive') AS
        SELECT x.a AS p, y.a AS q, z.a AS o FROM e x JOIN e y ON x.b = y.a JOIN e z ON y.b = z.a AND z.b = x.a
    """)
    names = [f"n{i:03}" for i in range(100)]
    db.insert("e", [("hub", "top"), *(("top", name) for name in names), *((name, "hub") for name in names)])
    assert db.view("l").common_neighbours(p="hub", q="top") == names
    assert db.view("l").common_neighbours(o="hub", q=names[3]) == ["top"]
    assert db.view("l").common_neighbours(p="top", q="hub") == []


def test_on_spark_they_are_those_of_the_listed_triangles(tmp_path: Path) -> None:
    with connect_inline(tmp_path, 2, sync=False) as db:
        db.execute(SCHEMA)
        db.execute(f"CREATE MATERIALIZED VIEW l WITH (strategy = 'adaptive') AS {LISTED}")
        feed(db, [(0, 1, 2, 1), (1, 2, 3, 1), (1, 2, 4, 1), (2, 3, 1, 1), (2, 4, 1, 1), (2, 5, 1, 1)])
        assert db.view("l").common_neighbours(x=1, y=2) == [3, 4]


def test_what_cannot_be_asked_is_named() -> None:
    db = viewlet.connect()
    db.execute(SCHEMA)
    db.execute(f"CREATE MATERIALIZED VIEW l WITH (strategy = 'adaptive') AS {LISTED}")
    count = LISTED.replace("s.c AS z, r.a AS x, r.b AS y", "COUNT(*) AS n")
    db.execute(f"CREATE MATERIALIZED VIEW n WITH (strategy = 'adaptive') AS {count}")
    handle: Any = db.view("l")
    with pytest.raises(viewlet.SchemaError, match="no column 'w'"):
        handle.common_neighbours(x=1, w=2)
    with pytest.raises(viewlet.SchemaError, match="takes two of the vertices 'z', 'x', 'y', by name"):
        handle.common_neighbours(x=1)
    with pytest.raises(viewlet.DataError, match="'one' is refused"):
        handle.common_neighbours(x="one", y=2)
    other: Any = db.view("n")
    with pytest.raises(viewlet.UnsupportedError, match="does not tell all vertices"):
        other.common_neighbours(n=1)
