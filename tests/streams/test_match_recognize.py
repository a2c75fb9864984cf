"""MATCH_RECOGNIZE: published results, random patterns against a brute-force matcher, parts, and what is refused.

The published results are those of the documentation of Apache Flink and of the tests of Trino.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.streams.model import at, random_batches, signed
from tests.streams.row_matcher import in_time, of_many_groups, play, random_query
from viewlet.errors import DataError, SqlError, UnsupportedError
from viewlet.streams import DuckDBHost

STREAMS = int(os.environ.get("VIEWLET_STREAMS", "2"))
T = "CREATE STREAM t (ts TIMESTAMP, id BIGINT, value BIGINT) PARTITION LENGTH 60 BY ts"
SHOWN = "SELECT id, n, val, label FROM t"
MEASURES = "MEASURES MATCH_NUMBER() AS n, RUNNING LAST(value) AS val, CLASSIFIER() AS label"


def run(values: Iterable[int], queries: Sequence[str], seconds: int = 60) -> list[list[Any]]:
    """What queries show, without the part, over rows 1, 2, ... of a stream that come in two batches."""
    db = viewlet.connect()
    db.execute(T)
    for number, query in enumerate(queries):
        db.execute(f"CREATE VIEW v{number} AS {query}")
    rows = [(at(seconds * id), id, value) for id, value in enumerate(values, 1)]
    for low, high in ((0, 3), (3, len(rows))):
        db.insert("t", rows[low:high])
    db.close_parts("t", at(seconds * (len(rows) + 1) + 60))
    found = [[row[:-1] for row in db.view(f"v{number}").rows()] for number in range(len(queries))]
    db.close()
    return found


def labelled(text: str) -> list[tuple[int, int, int | None, str | None]]:
    """Rows as 'id match value label', separated by commas; - is NULL."""
    found = []
    for row in text.split(","):
        id, number, value, label = row.split()
        found.append((int(id), int(number), None if value == "-" else int(value), None if label == "-" else label))
    return found


def clause(pattern: str, define: str, skip: str = "PAST LAST ROW", rows: str = "ALL ROWS PER MATCH") -> str:
    return f"""{SHOWN} MATCH_RECOGNIZE (ORDER BY ts {MEASURES} {rows} AFTER MATCH SKIP {skip}
        PATTERN ({pattern}) DEFINE {define})"""


NONE = "1 1 - -, 2 2 - -, 3 3 - -, 4 4 - -"
DOWN = "B AS B.value < PREV(B.value)"
LEVEL = "B AS B.value <= PREV(B.value)"
BOTH = f"{DOWN}, C AS C.value = PREV(C.value)"
PUBLISHED = {
    ("() | A", "A AS true"): NONE,
    ("^A", "A AS true"): "1 1 90 A",
    ("A$", "A AS true"): "4 1 70 A",
    ("$ A $", "A AS true"): "",
    ("A B C", BOTH): "2 1 80 A, 3 1 70 B, 4 1 70 C",
    ("B | C | A", f"{DOWN}, C AS C.value <= PREV(C.value)"): "1 1 90 A, 2 2 80 B, 3 3 70 B, 4 4 70 C",
    ("B*", LEVEL): "1 1 - -, 2 2 80 B, 3 2 70 B, 4 2 70 B",
    ("B??", LEVEL): NONE,
    ("B+", LEVEL): "2 1 80 B, 3 1 70 B, 4 1 70 B",
    ("B?", LEVEL): "1 1 - -, 2 2 80 B, 3 3 70 B, 4 4 70 B",
    ("B{2,}", LEVEL): "2 1 80 B, 3 1 70 B, 4 1 70 B",
    ("B{,2}", LEVEL): "1 1 - -, 2 2 80 B, 3 2 70 B, 4 3 70 B",
    ("B{1,5}?", LEVEL): "2 1 80 B, 3 2 70 B, 4 3 70 B",
    ("B{2}", LEVEL): "2 1 80 B, 3 1 70 B",
    ("B | ()*", DOWN): "1 1 - -, 2 2 80 B, 3 3 70 B, 4 4 - -",
    ("(B ()*)*", DOWN): "1 1 - -, 2 2 80 B, 3 2 70 B, 4 3 - -",
    ("^+ | B", DOWN): "1 1 - -, 2 2 80 B, 3 3 70 B",
    ("$+ | B", DOWN): "2 1 80 B, 3 2 70 B",
    ("B A $+", DOWN): "3 1 70 B, 4 1 70 A",
}


def test_patterns_of_trino() -> None:
    found = run([90, 80, 70, 70], [clause(*key) for key in PUBLISHED])
    for (key, text), rows in zip(PUBLISHED.items(), found, strict=True):
        assert sorted(rows) == sorted(labelled(text) if text else []), key


def test_output_modes_of_trino() -> None:
    queries = [
        f"SELECT n, val, label FROM t MATCH_RECOGNIZE (ORDER BY ts {MEASURES} {rows} PATTERN ({pattern}) DEFINE {DOWN})"
        for rows, pattern in (
            ("ONE ROW PER MATCH", "B*"),
            ("", "B+"),
            ("ALL ROWS PER MATCH SHOW EMPTY MATCHES", "B*"),
            ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", "B*"),
        )
    ]
    every, one, shown, omitted = run([90, 80, 70, 70], queries)
    assert sorted(every, key=repr) == [(1, None, None), (2, 70, "B"), (3, None, None)]
    assert one == [(1, 70, "B")]
    assert sorted(shown, key=repr) == [(1, None, None), (2, 70, "B"), (2, 80, "B"), (3, None, None)]
    assert sorted(omitted) == [(2, 70, "B"), (2, 80, "B")]


SKIPS = {
    "PAST LAST ROW": "1 1 90 A, 2 1 80 B, 3 1 70 B, 4 1 80 C",
    "TO NEXT ROW": "1 1 90 A, 2 1 80 B, 3 1 70 B, 4 1 80 C, 2 2 80 A, 3 2 70 B, 4 2 80 C, 4 3 80 A, 5 3 70 B, 6 3 80 C",
    **dict.fromkeys(
        ("TO FIRST C", "TO LAST B", "TO B", "TO U"),
        "1 1 90 A, 2 1 80 B, 3 1 70 B, 4 1 80 C, 4 2 80 A, 5 2 70 B, 6 2 80 C",
    ),
}


def skipping(skip: str) -> str:
    return f"""{SHOWN} MATCH_RECOGNIZE (ORDER BY ts {MEASURES} ALL ROWS PER MATCH AFTER MATCH SKIP {skip}
        PATTERN (A B+ C+ D?) SUBSET U = (C, D) DEFINE {DOWN}, C AS C.value > PREV(C.value), D AS false)"""


def test_skips_of_trino() -> None:
    found = run([90, 80, 70, 80, 70, 80], [skipping(skip) for skip in SKIPS])
    for (skip, text), rows in zip(SKIPS.items(), found, strict=True):
        assert sorted(rows) == sorted(labelled(text)), skip
    for skip, reason in (("TO A", "first row of a match"), ("TO D", "no row of it")):
        with pytest.raises(DataError, match=reason):
            run([90, 80, 70, 80, 70, 80], [skipping(skip)])


def test_navigation_of_trino() -> None:
    asked = {
        "value": [10, 20, 30],
        "FINAL LAST(value)": [30, 30, 30],
        "FIRST(value)": [10, 10, 10],
        "FINAL LAST(value, 2)": [10, 10, 10],
        "LAST(value, 10)": [None, None, None],
        "PREV(value)": [None, 10, 20],
        "NEXT(value)": [20, 30, None],
        "NEXT(FIRST(value), 2)": [30, 30, 30],
        "PREV(FIRST(value), 10)": [None, None, None],
        "PREV(LAST(value, 10), 2)": [None, None, None],
        "NEXT(CLASSIFIER())": ["A", "A", None],
    }
    measures = ", ".join(f"{sql} AS m{number}" for number, sql in enumerate(asked))
    names = ", ".join(f"m{number}" for number in range(len(asked)))
    beyond = ", ".join(
        f"{sql} AS b{at}" for at, sql in enumerate(["PREV(B.value, 4)", "PREV(B.value, 3)", "NEXT(B.value)"])
    )
    (rows,) = run(
        [10, 20, 30],
        [
            f"""SELECT id, {names} FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {measures} ALL ROWS PER MATCH
            PATTERN (A+) DEFINE A AS true)"""
        ],
    )
    assert [list(column) for column in zip(*sorted(rows), strict=True)][1:] == list(asked.values())
    query = f"""SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {beyond}
        PATTERN (A B) DEFINE B AS B.value = PREV(B.value))"""
    assert run([10, 20, 30, 30, 40], [query]) == [[(None, 10, 40)]]


def test_references_to_other_variables_of_trino() -> None:
    condition = "PREV(LAST(A.value), 3) + FIRST(A.value) + PREV(LAST(B.value), 2)"
    query = f"""SELECT value, label FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES CLASSIFIER() AS label
        ALL ROWS PER MATCH PATTERN ((A | B)* X) DEFINE X AS value = {condition})"""
    (rows,) = run([1, 2, 3, 4, 5, 6], [query])
    assert "".join(label for _, label in sorted(rows)) == "BAAABX"
    union = """SELECT id, u, w FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES CLASSIFIER(U) AS u, CLASSIFIER(W) AS w
        ALL ROWS PER MATCH PATTERN ((L | H) A) SUBSET U = (L, H), W = (A, L, H)
        DEFINE A AS A.value = 80, L AS L.value < 80, H AS H.value > 80)"""
    (rows,) = run([90, 80, 70, 80], [union])
    assert sorted(rows) == [(1, "H", "H"), (2, "H", "A"), (3, "L", "L"), (4, "L", "A")]


def test_examples_of_flink() -> None:
    """Price drops, averages, sums and a time constraint; rows a second or twenty minutes apart."""
    falling = """SELECT first, bottom, last FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES START_ROW.id AS first,
        LAST(PRICE_DOWN.id) AS bottom, LAST(PRICE_UP.id) AS last ONE ROW PER MATCH AFTER MATCH SKIP TO LAST PRICE_UP
        PATTERN (START_ROW PRICE_DOWN+ PRICE_UP) DEFINE PRICE_DOWN AS
        (LAST(PRICE_DOWN.value, 1) IS NULL AND PRICE_DOWN.value < START_ROW.value)
        OR PRICE_DOWN.value < LAST(PRICE_DOWN.value, 1), PRICE_UP AS PRICE_UP.value > LAST(PRICE_DOWN.value, 1)) MR"""
    assert run([12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19], [falling], 1) == [[(5, 8, 9)]]
    mean = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(A.id) AS first, LAST(A.id) AS last,
        AVG(A.value) AS mean PATTERN (A+ B) DEFINE A AS AVG(A.value) < 15)"""
    assert run([12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30], [mean], 1) == [[(1, 4, 14.5), (6, 11, 13.5)]]
    drop = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES C.id AS id, A.value - C.value AS fall
        PATTERN (A B* C) WITHIN INTERVAL '1' HOUR DEFINE B AS B.value > A.value - 10, C AS C.value < A.value - 10)"""
    assert run([20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19], [drop], 1200) == [[(10, 14)]]
    top = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(A.value) AS first, LAST(A.value) AS top,
        B.value AS last PATTERN (A+ B) DEFINE A AS LAST(A.value, 1) IS NULL OR A.value > LAST(A.value, 1),
        B AS B.value < LAST(A.value))"""
    assert run([10, 12, 13, 11], [top], 1) == [[(10, 13, 11)]]
    sums = """SELECT s FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES SUM(A.value) AS s AFTER MATCH SKIP {0}
        PATTERN (A+ C) DEFINE A AS SUM(A.value) < 30)"""
    # Flink waits for the row after the last one; here the matches are those of the rows there are, one more
    past, following = run([7, 9, 10, 5, 10, 7, 14], [sums.format("PAST LAST ROW"), sums.format("TO NEXT ROW")], 1)
    assert past == [(17,), (26,)]
    assert sorted(following) == [(7,), (17,), (22,), (24,), (25,), (26,)]


@pytest.mark.parametrize("seed", range(STREAMS))
def test_random_patterns_equal_a_brute_force_matcher(seed: int) -> None:
    assert play(8 + seed, 2, batches=6) > 0


@pytest.mark.parametrize("seed", range(STREAMS))
def test_forgotten_groups_change_no_match(seed: int) -> None:
    assert play(2000 + seed, 4, batches=24, every=12, is_bounded=True) > 0


SOURCES = {
    "copy": "INITIALIZE w[i] AS SELECT ts, g, x FROM m[i] UPDATE w[j] AS SELECT ts, g, x FROM m[j]",
    "earlier": "INITIALIZE w[i] AS SELECT ts, g, x FROM m[i] UPDATE w[j] AS SELECT ts, g, x FROM m[j-1]",
    "window": "SELECT g, SUM(x) AS x FROM m [WINDOW 3 MINUTES] GROUP BY g",
    "hours": "SELECT g, MAX(x) AS x FROM TUMBLE(m, INTERVAL '3' MINUTES) GROUP BY g, window_start",
    "sessions": """SELECT g, window_start, SUM(x) AS x FROM SESSION(m PARTITION BY g, INTERVAL '100' SECONDS)
        GROUP BY g, window_start""",
    "matches": """SELECT g, x FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES LAST(x) AS x
        PATTERN (a+) WITHIN INTERVAL '2' MINUTES DEFINE a AS x > 0)""",
}
"""Views over m whose parts change at the late row, after it, and before it."""


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", range(STREAMS // 2))
def test_groups_of_a_view_are_forgotten_and_change_no_match(source: str, seed: int) -> None:
    """With LATENESS, a search forgets what no change of its view can reach; without, it keeps everything."""
    chance = random.Random(seed)
    asked = [random_query(chance) for _ in range(2)]
    found = []
    for bound in ("LATENESS INTERVAL '5' MINUTE", ""):
        with viewlet.connect() as db:
            db.execute(f"{M} {bound}")
            db.execute(f"CREATE VIEW w AS {SOURCES[source]}")
            for number, query in enumerate(asked):
                sql = query.sql(f"v{number}").replace("FROM m ", "FROM w ")
                db.execute(sql.replace("ORDER BY ts", "ORDER BY part_timestamp"))
            db.execute("""CREATE VIEW v2 AS SELECT g, n FROM w MATCH_RECOGNIZE (PARTITION BY g ORDER BY part_timestamp
                MEASURES COUNT(*) AS n PATTERN (a b?) WITHIN INTERVAL '2' MINUTES DEFINE a AS x > 0)""")
            rows = []
            for number, batch in enumerate(in_time(random_batches(seed, of_many_groups, batches=12, minutes=4), 5)):
                db.apply({"m": signed(batch, ("ts", "g", "x"))})
                if number % 4 == 3:
                    rows.append([Counter(db.view(f"v{at_view}").rows()) for at_view in range(3)])
            found.append(rows)
    assert found[0] == found[1]
    assert all(rows[2] for rows in found[0])


V = """SELECT g, low, n FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES MIN(x) AS low, COUNT(*) AS n
    PATTERN (a down+ up+) DEFINE down AS x < PREV(x), up AS x > PREV(x))"""
M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"


def test_a_match_grows_moves_and_is_taken_back() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute(f"CREATE VIEW v AS {V}")
    told: list[list[tuple[Any, ...]]] = []
    db.view("v").subscribe(
        lambda epoch, changes: told.append([(row["n"], row["_multiplicity"]) for row in changes.to_pylist()])
    )
    for minute, x in enumerate([9, 5, 7, 8, 2]):
        db.insert("m", [(at(60 * minute), "a", x)])
    assert db.view("v").rows() == [("a", 5, 4, at(180))]
    assert "group's search resumes" in db.explain("v", "class")
    assert "PATTERN (a down+ up+)" in db.explain("v", "maintenance")
    assert [sorted(each) for each in told if each] == [[(3, 1)], [(3, -1), (4, 1)]]
    db.insert("m", [(at(61), "a", 1)])  # behind the watermark
    assert db.view("v").rows() == [("a", 1, 5, at(180))]
    db.delete("m", [(at(180), "a", 8)])
    assert db.view("v").rows() == [("a", 1, 4, at(120))]
    assert db.execute("SELECT low FROM v WHERE n = 4").to_pylist() == [{"low": 1}]
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n FROM v")
    db.delete("m", [(at(60), "a", 5), (at(61), "a", 1)])
    assert (db.view("v").rows(), db.view("total").rows()) == ([], [(0,)])


def test_matches_survive_and_are_shared(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(M)
        db.insert("m", [(at(60 * minute), "a", x) for minute, x in enumerate([9, 5, 7])])
        db.execute(f"CREATE VIEW v AS {V}")
        db.insert("m", [(at(180), "a", 8)])
        assert db.view("v").rows() == [("a", 5, 3, at(120))]
    with viewlet.connect(tmp_path / "db") as db:
        db.execute(f"CREATE VIEW w AS {V} WHERE n > 3")
        db.insert("m", [(at(240), "a", 1)])
        assert db.view("v").rows() == db.view("w").rows() == [("a", 5, 4, at(180))]
        assert db.view("v").stats()["stored"].keys() - {"v"} == db.view("w").stats()["stored"].keys() - {"w"}
        db.execute("DROP VIEW v")
        db.insert("m", [(at(15), "a", 8)])
        assert db.view("w").rows() == [("a", 5, 5, at(180))]


def test_a_batch_that_fails_leaves_the_matches() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.execute(f"CREATE VIEW v AS {V}")
    db.execute("""CREATE VIEW w AS SELECT n FROM m MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n
        AFTER MATCH SKIP TO a PATTERN (a b) DEFINE b AS x = 99)""")
    db.insert("m", [(at(60 * minute), "a", x) for minute, x in enumerate([9, 5, 7])])
    with pytest.raises(DataError, match="SKIP"):
        db.insert("m", [(at(180), "a", 99), (at(240), "a", 1)])
    db.execute("DROP VIEW w")
    db.insert("m", [(at(180), "a", 8), (at(240), "a", 1)])
    assert db.view("v").rows() == [("a", 5, 4, at(180))]


def test_parts_that_a_match_needs_are_kept() -> None:
    db = viewlet.connect()
    db.execute(M + " LATENESS INTERVAL '1' MINUTE RETAIN INTERVAL '3' MINUTE")
    db.execute(f"CREATE VIEW v AS {V}")
    for minute, x in enumerate([9, 8, 7, 6, 5, 4, 3, 5, 4, 3, 5, 4, 3, 2, 1]):
        db.insert("m", [(at(60 * minute), "a", x)])
    assert sorted(row[:3] for row in db.view("v").rows()) == [("a", 3, 3), ("a", 3, 8)]
    # the search resumes with the fourth minute before the end, whose condition reads the row before
    assert db.execute("SELECT MIN(ts) AS t FROM m").to_pylist() == [{"t": at(60 * 10)}]


@pytest.mark.parametrize(
    ("pattern", "clauses"), [("a b", "WITHIN INTERVAL '2' MINUTES"), ("a", ""), ("a b+", "WITHIN INTERVAL '1' MINUTE")]
)
def test_groups_that_no_row_can_continue_are_forgotten(pattern: str, clauses: str) -> None:
    host = DuckDBHost()
    db = viewlet.connect(streams=host)
    db.execute(M + " LATENESS INTERVAL '1' MINUTE RETAIN INTERVAL '3' MINUTE")
    db.execute(f"""CREATE VIEW v AS SELECT g, n FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts
        MEASURES COUNT(*) AS n PATTERN ({pattern}) {clauses} DEFINE a AS x > 0) RETAIN INTERVAL '3' MINUTE""")
    sizes = []
    for minute in range(60):
        db.insert("m", [(at(60 * minute), f"group {minute}", 1), (at(60 * minute), f"group {minute - 1}", 1)])
        sizes.append((len(host.tables()), db.execute("SELECT COUNT(*) AS n FROM m").to_pylist()[0]["n"]))
    assert len(db.view("v")) > 0
    assert max(sizes[20:]) <= max(sizes[:20])


@pytest.mark.parametrize("source", SOURCES)
def test_groups_of_a_view_that_no_row_can_continue_are_forgotten(source: str) -> None:
    host = DuckDBHost()
    with viewlet.connect(streams=host) as db:
        db.execute(M + " LATENESS INTERVAL '1' MINUTE RETAIN INTERVAL '10' MINUTE")
        db.execute(f"CREATE VIEW w AS {SOURCES[source]} RETAIN INTERVAL '5' MINUTE")
        db.execute("""CREATE VIEW v AS SELECT g, n FROM w MATCH_RECOGNIZE (PARTITION BY g ORDER BY part_timestamp
            MEASURES COUNT(*) AS n PATTERN (a b?) WITHIN INTERVAL '2' MINUTES DEFINE a AS x > 0)
            RETAIN INTERVAL '5' MINUTE""")
        tables = []
        for minute in range(32):
            rows = [(at(60 * minute + k), f"group {minute - k % 5}", 1) for k in range(10)]
            db.insert("m", rows)
            tables.append(len(host.tables()))
        assert len(db.view("v")) > 0
    assert max(tables[20:]) <= max(tables[:20])


def test_equal_rows_have_one_order() -> None:
    """Each of them has one neighbour, wherever the rows that are read begin."""
    db = viewlet.connect()
    db.execute(M)
    db.execute("""CREATE VIEW v AS SELECT n FROM m MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n, PREV(x, 2) AS b
        AFTER MATCH SKIP TO NEXT ROW PATTERN (up?) DEFINE up AS NEXT(x) > x)""")
    for minute, rows in enumerate([[2], [3, 3], [3, 3, 3], [4], [0]]):
        db.insert("m", [(at(60 * minute), "a", x) for x in rows])
    assert sorted(row[0] for row in db.view("v").rows()) == [0, 0, 0, 0, 0, 1, 1]


def test_matches_over_a_stream_view() -> None:
    db = viewlet.connect()
    db.execute(M)
    db.stream_view("sums", initialize="SELECT g, SUM(x) AS x FROM m[i] GROUP BY g")
    db.execute("""CREATE VIEW v AS SELECT * FROM sums MATCH_RECOGNIZE (PARTITION BY g ORDER BY part_timestamp
        MEASURES FIRST(part_timestamp) AS since, LAST(up.x) AS top PATTERN (a up up) DEFINE up AS x > PREV(x))""")
    db.insert("m", [(at(60 * minute + second), "g", minute) for minute in range(4) for second in range(2)])
    assert db.view("v").rows() == [("g", at(0), 4, at(120))]
    db.insert("m", [(at(61), "g", 9)])
    assert db.view("v").rows() == []


@pytest.fixture(scope="module")
def declared() -> viewlet.Connection:
    """A stream that every statement of a test is refused over."""
    db = viewlet.connect()
    db.execute(M)
    return db


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("ORDER BY ts PATTERN (PERMUTE(a, b)) DEFINE a AS x > 1", "PERMUTE"),
        ("ORDER BY ts PATTERN (a {- b -}) DEFINE a AS x > 1", "exclusion"),
        ("ORDER BY ts ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a) DEFINE a AS x > 1", "UNMATCHED"),
        ("ORDER BY x PATTERN (a) DEFINE a AS x > 1", "begins with ts"),
        ("ORDER BY ts DESC PATTERN (a) DEFINE a AS x > 1", "begins with ts"),
        ("PATTERN (a) DEFINE a AS x > 1", "needs ORDER BY"),
        ("ORDER BY ts PATTERN (a)", "needs DEFINE"),
        ("ORDER BY ts PATTERN (a) DEFINE b AS x > 1", "B is no variable"),
        ("ORDER BY ts PATTERN (a) DEFINE a AS nothing > 1", "nothing"),
        ("ORDER BY ts PATTERN (a) DEFINE a AS b.x > 1", "B is no variable"),
        ("ORDER BY ts PATTERN (a) DEFINE a AS MEDIAN(x) > 1", "COUNT, SUM"),
        ("ORDER BY ts PATTERN (a b) DEFINE b AS LAST(a.x * b.x) > 1", "several variables"),
        ("ORDER BY ts PATTERN (a b) DEFINE b AS LN(a.x) > 1", "comparisons, arithmetic"),
        ("ORDER BY ts PATTERN (a b) DEFINE b AS FIRST(PREV(x)) > 1", "navigates twice"),
        ("ORDER BY ts PATTERN (a b) DEFINE b AS PREV(x, -1) > 1", "whole number"),
        ("ORDER BY ts MEASURES x PATTERN (a) DEFINE a AS x > 1", "needs a name"),
        ("PARTITION BY nobody ORDER BY ts PATTERN (a) DEFINE a AS x > 1", "column of 'm'"),
        ("ORDER BY ts AFTER MATCH SKIP TO z PATTERN (a) DEFINE a AS x > 1", "Z is no variable"),
        ("ORDER BY ts PATTERN (a{3,2}) DEFINE a AS x > 1", "quantifier"),
        ("ORDER BY ts PATTERN ((a{900}){900}) DEFINE a AS x > 1", "repetitions"),
        ("ORDER BY ts PATTERN (a & b) DEFINE a AS x > 1", "not understood"),
        ("ORDER BY ts PATTERN (a) WITHIN INTERVAL '1' MONTH DEFINE a AS x > 1", "no fixed length"),
        ("ORDER BY ts PATTERN (a) DEFINE a AS x > (SELECT 1)", "subqueries"),
    ],
)
def test_what_match_recognize_cannot_say(declared: viewlet.Connection, clauses: str, reason: str) -> None:
    with pytest.raises((SqlError, UnsupportedError), match=reason):
        declared.execute(f"CREATE VIEW v AS SELECT * FROM m MATCH_RECOGNIZE ({clauses})")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT COUNT(*) AS n FROM m MATCH_RECOGNIZE ({0})", "aggregate around"),
        ("SELECT g FROM m MATCH_RECOGNIZE ({0}) GROUP BY g", "GROUP around"),
        ("SELECT * FROM m MATCH_RECOGNIZE ({0}) LIMIT 1", "LIMIT around"),
        ("SELECT * FROM nobody MATCH_RECOGNIZE ({0})", "partitioned stream"),
        ("SELECT z FROM m MATCH_RECOGNIZE ({0})", "z"),
    ],
)
def test_what_cannot_stand_around_it(declared: viewlet.Connection, query: str, reason: str) -> None:
    clauses = "PARTITION BY g ORDER BY ts MEASURES x AS y PATTERN (a) DEFINE a AS x > 1"
    with pytest.raises((SqlError, UnsupportedError), match=reason):
        declared.execute(f"CREATE VIEW v AS {query.format(clauses)}")
