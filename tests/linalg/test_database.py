"""Matrix programs as views of a database: entries of tables are input matrices, which follow in the same batch."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import viewlet
from viewlet import linalg
from viewlet.connection.spark_facade import connect_inline

n = linalg.dim("n")
A = linalg.matrix("A", n, n, dynamic=True)
PATHS = linalg.program(paths=linalg.power_sum(A, 4))
LINKS = "CREATE TABLE links (source VARCHAR, target VARCHAR, weight DOUBLE)"


def paths(links: list[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    """The paths of up to three steps, by NumPy."""
    nodes = sorted({node for link in links for node in link[:2]})
    matrix = np.zeros((len(nodes), len(nodes)))
    for source, target, weight in links:
        matrix[nodes.index(source), nodes.index(target)] += weight
    total = sum(np.linalg.matrix_power(matrix, i) for i in range(4))
    return {(a, b): total[i, j] for i, a in enumerate(nodes) for j, b in enumerate(nodes) if abs(total[i, j]) > 1e-9}


def shown(db: viewlet.Connection, view: str = "reach") -> dict[Any, float]:
    return {(row, column): value for row, column, value in db.view(view).rows() if abs(value) > 1e-9}


def assert_equal(found: dict[Any, float], wanted: dict[Any, float]) -> None:
    assert found.keys() == wanted.keys()
    assert all(found[key] == pytest.approx(value, abs=1e-9) for key, value in wanted.items())


def test_links_come_and_go() -> None:
    db = viewlet.connect()
    db.execute(LINKS)
    db.program("reach", PATHS, A="links")
    assert db.view("reach").rows() == []
    random, links, told = Random(1), list[tuple[str, str, float]](), list[int]()
    db.view("reach").subscribe(lambda epoch, changes: told.append(changes.num_rows))
    for _ in range(25):
        new = [(random.choice("abcdef"), random.choice("abcdef"), random.randrange(1, 4) / 2) for _ in range(3)]
        gone = random.sample(links, min(len(links), random.randrange(4)))
        db.apply({"links": [*({"source": a, "target": b, "weight": w} for a, b, w in new)]})
        links += new
        for link in gone:
            links.remove(link)
        db.delete("links", gone)
        assert_equal(shown(db), paths(links))
    assert told


@pytest.mark.parametrize("partitions", [0, 3])
def test_changes_are_told_and_add_up(partitions: int, tmp_path: Path) -> None:
    """In this process and in a partition of Spark; in between the driver starts again, and a batch is refused."""
    program = linalg.program("input A(n, n); B := inv(I(n) + A);")
    random, told, links = Random(2), Counter[Any](), list[tuple[str, str, float]]()

    def follow(epoch: int, changes: Any) -> None:
        for change in changes.to_pylist():
            key = change["row"], change["column"], change["value"]
            told[key] += change["_multiplicity"]
            assert told[key] in (0, 1)

    for start in range(2):
        db = connect_inline(tmp_path, partitions, sync=False) if partitions else viewlet.connect(tmp_path)
        if not start:
            db.execute(LINKS)
            db.program("inverse", program, A="links")
        told = Counter(db.view("inverse").rows())
        db.view("inverse").subscribe(follow)
        for _ in range(8):
            new = [(random.choice("abcdefgh"), random.choice("abcdefgh"), random.random() / 9) for _ in range(2)]
            gone = random.sample(links, min(len(links), random.randrange(3)))
            db.insert("links", new)
            db.delete("links", gone)
            links = [link for link in links + new if link not in gone]
            assert +told == Counter(db.view("inverse").rows())
        with pytest.raises(viewlet.DataError, match="has no value"):
            db.insert("links", [("z", "z", -1.0)])
        assert +told == Counter(db.view("inverse").rows())
        db.checkpoint()
        db.close()
    nodes = sorted({node for link in links for node in link[:2]})
    matrix = np.eye(len(nodes))
    for source, target, weight in links:
        matrix[nodes.index(source), nodes.index(target)] += weight
    right = np.linalg.inv(matrix)
    wanted = {(a, b): right[i, j] for i, a in enumerate(nodes) for j, b in enumerate(nodes) if abs(right[i, j]) > 1e-9}
    assert_equal({key[:2]: key[2] for key in +told if abs(key[2]) > 1e-9}, wanted)


def test_subscribers_take_factors(tmp_path: Path) -> None:
    """Over entries that change, keys that come and go, a refused batch and one of no effect."""
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE entries (i BIGINT NOT NULL, j BIGINT NOT NULL, x DOUBLE); CREATE TABLE b (j BIGINT, x DOUBLE)"
    )
    db.program("products", linalg.program("input A(n, n), B(n, 1); C := A * A * A * B;"), A="entries", B="b")
    db.program("inverse", linalg.program("input A(n, n); W := inv(A);"), A="entries")
    rng, seen, epochs = np.random.default_rng(3), dict[str, Any](), list[int]()
    kinds = dict.fromkeys(("products", "inverse"), 0)

    def follow(view: str) -> Any:
        def told(epoch: int, change: Any) -> None:
            kinds[view] += change.rank is not None
            epochs.append(epoch)
            seen[view] = (change.apply_to(seen[view][0]), change.rows, change.columns)

        now = db.view(view).matrix()
        seen[view] = now.whole, now.rows, now.columns
        return db.view(view).subscribe_factors(told)

    size = 24
    db.insert(
        "entries", [(i, j, float(rng.standard_normal() + 9 * (i == j))) for i in range(size) for j in range(size)]
    )
    db.insert("b", [(i, 1.0) for i in range(size)])
    ends = [follow(view) for view in kinds]
    db.insert("entries", [(3, 5, 0.5), (3, 6, 0.25)])
    db.apply({"entries": [(1, 1, 0.125)], "b": [(2, 3.0)]})
    db.insert("entries", [(40, 40, 2.0), (40, 2, 1.0)])
    with pytest.raises(viewlet.DataError, match="singular"):
        db.insert("entries", [(41, 2, 1.0)])
    db.insert("entries", [(0, 0, 0.25)])
    db.delete("entries", [(40, 40, 2.0), (40, 2, 1.0)])
    db.insert("entries", [(7, 7, 1.0)])
    for view, (matrix, rows, columns) in seen.items():
        now = db.view(view).matrix()
        assert (now.rows, now.columns) == (rows, columns)
        assert np.allclose(matrix, now.whole, rtol=1e-12)
        assert len(db.view(view)) == np.count_nonzero(now.whole)
    entries = np.zeros((size, size))
    for i, j, x in db.table("entries").rows():
        entries[i, j] += x
    assert np.allclose(seen["inverse"][0], np.linalg.inv(entries))
    assert kinds["products"] >= 3
    assert kinds["inverse"] >= 2
    last = epochs[-1]
    for end in ends:
        end.cancel()
    db.insert("entries", [(3, 5, 0.5)])
    assert epochs[-1] == last
    on_spark = connect_inline(tmp_path, 2, sync=False)
    on_spark.execute(LINKS)
    on_spark.program("reach", PATHS, A="links")
    with pytest.raises(viewlet.UnsupportedError, match="by factors"):
        on_spark.view("reach").subscribe_factors(print)


def test_a_view_reads_it_and_sql_too() -> None:
    db = viewlet.connect()
    db.execute(LINKS)
    db.program("reach", PATHS, A="links")
    db.execute('CREATE MATERIALIZED VIEW out AS SELECT "row", COUNT(*) AS reached FROM reach GROUP BY "row"')
    db.insert("links", [("a", "b", 1.0), ("b", "c", 1.0)])
    assert sorted(db.view("out").rows()) == [("a", 3), ("b", 2), ("c", 1)]
    answer = db.execute("SELECT value FROM reach WHERE \"row\" = 'a' AND \"column\" = 'c'").to_pylist()
    assert answer == [{"value": 1.0}]
    text = db.explain("reach")
    assert "ON UPDATE A BY (u_A, v_A)" in text
    assert "input A" in db.explain("reach", "run")


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_it_survives_reopening(kind: str, tmp_path: Path) -> None:
    links = [("a", "b", 1.0), ("b", "c", 2.0), ("c", "a", 0.5)]
    with viewlet.connect(tmp_path, fsync=False) as db:
        db.execute(LINKS.replace("TABLE", kind))
        db.program("reach", PATHS, A="links")
        db.insert("links", links[:2])
    for link in links[2:]:
        with viewlet.connect(tmp_path, fsync=False) as db:
            db.insert("links", [link])
            db.checkpoint()
    with viewlet.connect(tmp_path, fsync=False) as db:
        assert_equal(shown(db), paths(links))


def test_a_failed_batch_changes_nothing() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE entries (i BIGINT NOT NULL, j BIGINT NOT NULL, x DOUBLE)")
    db.program("inverse", linalg.program("input A(n, n); W := inv(A);"), A="entries")
    db.insert("entries", [(1, 1, 2.0), (2, 2, 4.0)])
    assert sorted(db.view("inverse").rows()) == [(1, 1, 0.5), (2, 2, 0.25)]
    with pytest.raises(viewlet.DataError, match="singular"):
        db.insert("entries", [(1, 1, -2.0)])
    assert sorted(db.view("inverse").rows()) == [(1, 1, 0.5), (2, 2, 0.25)]
    assert len(db.table("entries").rows()) == 2
    db.insert("entries", [(3, 3, 8.0)])
    assert (3, 3, 0.125) in db.view("inverse").rows()


@pytest.mark.parametrize("partitions", [0, 3])
def test_nulls_duplicates_decimals_views_and_several_tables(partitions: int, tmp_path: Path) -> None:
    db = connect_inline(tmp_path, partitions, sync=False) if partitions else viewlet.connect()
    db.execute("CREATE TABLE x (i BIGINT, j VARCHAR, v DECIMAL(8, 2)); CREATE TABLE y (i BIGINT, v INTEGER)")
    db.execute("CREATE MATERIALIZED VIEW large AS SELECT i, j, SUM(v) AS v FROM x WHERE v > 0 GROUP BY i, j")
    program = linalg.program("input X(m, n), Y(m, 1); S := X' * Y;")
    db.program("cross", program, X="large", Y="y")
    db.insert("x", [(1, "a", "1.50"), (1, "a", "0.50"), (2, "b", "3.00"), (2, None, "9.00"), (None, "b", "9.00")])
    db.insert("y", [(1, 2), (2, None), (2, 5)])
    assert sorted(db.view("cross").rows()) == [("a", 0, 4.0), ("b", 0, 15.0)]
    db.delete("y", [(1, 2)])
    assert sorted(db.view("cross").rows()) == [("b", 0, 15.0)]
    if partitions:
        with pytest.raises(viewlet.UnsupportedError, match="a view over 'cross'"):
            db.execute('CREATE MATERIALIZED VIEW v AS SELECT SUM(value) AS total FROM "cross"')
        db.checkpoint()
        db.close()
        db = connect_inline(tmp_path, partitions, sync=False)
    db.insert("x", [(7, "c", "1.00")])
    db.insert("y", [(7, 1), (1, 1)])
    assert sorted(db.view("cross").rows()) == [("a", 0, 2.0), ("b", 0, 15.0), ("c", 0, 1.0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'input A(n, n); C := A * B;', 'C', links", "'B' is neither an input"),
        ("'input A(n, n); C := A;', 'D', links", "no output 'D', only C"),
        ("'input A(n, n); C := A;', 'C'", "needs a table for each of the inputs A"),
        ("'input A(n, n); C := A;', 'C', pairs", "three columns"),
        ("'input A(n, n); C := A;', 'C', mixed", "the keys of dimension n are"),
        ("'input A(n, n); C := A;', 'C', texts", "not a number"),
        ("links, 'C', links", "expects the text of a program here"),
        ("'input A(n, n); C := [A, A];', 'C', links", "only plain dimensions"),
    ],
)
def test_declarations_that_are_refused(arguments: str, message: str) -> None:
    db = viewlet.connect()
    db.execute(f"{LINKS}; CREATE TABLE pairs (a BIGINT, b BIGINT); CREATE TABLE mixed (a BIGINT, b VARCHAR, v DOUBLE)")
    db.execute("CREATE TABLE texts (a BIGINT, b BIGINT, v VARCHAR)")
    with pytest.raises(viewlet.SqlError) as caught:
        db.execute(f"CREATE MATERIALIZED VIEW c AS SELECT * FROM matrix_program({arguments})")
    assert message in str(caught.value)


def test_names_with_quotes_are_names() -> None:
    db = viewlet.connect()
    db.execute("""CREATE TABLE "li""nks; --'" ("a b" VARCHAR, "c'd" VARCHAR, v DOUBLE)""")
    db.program("re'ach\"", PATHS, A="li\"nks; --'")
    db.insert("li\"nks; --'", [("'; DROP", "b", 1.0)])
    assert_equal(shown(db, "re'ach\""), paths([("'; DROP", "b", 1.0)]))


def test_programs_that_are_refused() -> None:
    db = viewlet.connect()
    db.execute(LINKS)
    with pytest.raises(linalg.ProgramError, match="input 'A' needs a table"):
        db.program("reach", PATHS)
    with pytest.raises(linalg.ProgramError, match="no input 'B'"):
        db.program("reach", PATHS, A="links", B="links")
    with pytest.raises(linalg.ProgramError, match="say which output"):
        db.program("reach", linalg.program(C=A @ A, D=A.T), A="links")
    with pytest.raises(linalg.ProgramError, match="made by linalg"):
        db.program("reach", "C := A", A="links")  # type: ignore[arg-type]


def test_entries_are_the_exact_sums_of_their_rows() -> None:
    """Whatever they were before: neither a difference nor the order of rows rounds them."""
    db = viewlet.connect()
    db.execute("CREATE TABLE entries (i BIGINT NOT NULL, j BIGINT NOT NULL, x DOUBLE)")
    db.program("same", linalg.program("input A(n, n); C := A;"), A="entries")
    random = Random(4)
    rows: list[tuple[int, int, float]] = [(i, i, 1.0) for i in range(3)]
    db.insert("entries", rows)
    for _ in range(60):
        new = (random.randrange(3), random.randrange(3), random.choice([1e20, -1e20, 1.0, 0.1, 1e-200, 1e200, -3.5]))
        gone = random.choice(rows) if random.random() < 0.5 and len(rows) > 4 else None
        if gone is not None:
            rows.remove(gone)
            db.delete("entries", [gone])
        many = random.randrange(1, 4)
        rows += [new] * many
        db.insert("entries", [new] * many)
        wanted = {}
        for i in range(3):
            for j in range(3):
                total = sum((Fraction(x) for a, b, x in rows if (a, b) == (i, j)), Fraction(0))
                wanted[i, j] = float(total)
        wanted = {key: value for key, value in wanted.items() if value}
        assert {row[:2]: row[2] for row in db.view("same").rows()} == wanted
    with pytest.raises(viewlet.DataError, match=r"rows of entries for entry \(0, 1\) of A add up to no finite number"):
        db.insert("entries", [(0, 1, 1.7e308)] * 2)
    assert {row[:2]: row[2] for row in db.view("same").rows()} == wanted
