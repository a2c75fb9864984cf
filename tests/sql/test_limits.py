"""Statements that are deep, long or odd: they work or are refused by an error of ours, and nothing is printed."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from pathlib import Path

import pytest

import viewlet
from viewlet.sql.depth import MAX_NESTING

VIEW = "CREATE MATERIALIZED VIEW v AS "


def nested(kind: str, n: int) -> str:
    return {
        "parentheses": f"SELECT {'(' * n}a{')' * n} AS x FROM r",
        "additions": f"SELECT {'+'.join('a' * n)} AS x FROM r",
        "products": f"SELECT {'*'.join('b' * n)} AS x FROM r",
        "concatenations": f"SELECT {'||'.join('s' * n)} AS x FROM t",
        "right additions": f"SELECT {'(a + ' * n}a{')' * n} AS x FROM r",
        "subtractions": f"SELECT {'-'.join('a' * n)} AS x FROM r",
        "negations": f"SELECT a FROM r WHERE {'NOT ' * n}a = 1",
        "signs": f"SELECT {'- ' * n}a AS x FROM r",
        "cases": f"SELECT {'CASE WHEN a > 0 THEN ' * n}1{' ELSE b END' * n} AS x FROM r",
        "calls": f"SELECT {'COALESCE(b, ' * n}a{')' * n} AS x FROM r",
        "casts": f"SELECT a{'::BIGINT' * n} AS x FROM r",
        "subqueries": f"SELECT a FROM {'(SELECT a FROM ' * n}r{') AS x' * n}",
        "unions": " UNION ".join(["SELECT a FROM r"] * n),
        "disjunctions": f"SELECT a FROM r WHERE {' OR '.join(f'a = {i} AND b = {i}' for i in range(n))}",
        "comparisons": f"SELECT {'='.join('a' * n)} AS x FROM r",
    }[kind]


CHAINS = ("additions", "products", "concatenations", "unions", "disjunctions")
KINDS = (*CHAINS, "parentheses", "right additions", "subtractions", "negations", "signs", "cases", "calls", "casts")


def database(path: Path | None = None) -> viewlet.Connection:
    db = viewlet.connect(path, engine="interpreter")
    if not db.tables:
        db.execute("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE t (s VARCHAR)")
        db.apply({"r": [(2, 1), (-1, None)], "t": [("x",)]})
    return db


@pytest.mark.parametrize("kind", [*KINDS, "subqueries"])
def test_a_hundred_levels_work_on_the_usual_stack(kind: str) -> None:
    assert sys.getrecursionlimit() == 1000
    sql, db = nested(kind, 100), database()
    expected = sorted(map(repr, db.execute(sql).to_pylist()))
    db.execute(VIEW + sql)
    assert sorted(repr(dict(zip(db.view("v").columns, row, strict=True))) for row in db.view("v").rows()) == expected
    db.apply({"r": [(3, 1)], "t": [("y",)]})
    expected = sorted(map(repr, db.execute(sql).to_pylist()))
    assert sorted(repr(dict(zip(db.view("v").columns, row, strict=True))) for row in db.view("v").rows()) == expected
    assert db.explain("v")
    assert sys.getrecursionlimit() == 1000


@pytest.mark.parametrize("kind", CHAINS)
def test_chains_may_be_longer(kind: str) -> None:
    db = database()
    db.execute(VIEW + nested(kind, 300))
    assert db.view("v").rows() is not None


@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize("kind", [*KINDS, "subqueries", "comparisons"])
def test_what_is_deeper_is_refused_or_works(kind: str, n: int) -> None:
    db = database()
    if kind not in CHAINS:
        with pytest.raises(viewlet.SqlError, match=r"nested too deeply|do not go together"):
            db.execute(VIEW + nested(kind, n))
    with contextlib.suppress(viewlet.SqlError):
        db.execute(nested(kind, min(n, 300) if kind in ("unions", "disjunctions") else n))
    assert sys.getrecursionlimit() == 1000


def test_a_deep_view_is_found_again_in_its_directory(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        db.execute(VIEW + nested("cases", MAX_NESTING - 8))
    with database(tmp_path / "db") as db:
        db.insert("r", [(7, 7)])
        assert db.view("v").rows() == [(1,), (1,), (None,)]


def test_the_calling_thread_may_be_deep_itself() -> None:
    db = database()

    def recurse(levels: int) -> None:
        if levels:
            recurse(levels - 1)
        else:
            db.execute(nested("parentheses", 100))

    recurse(600)
    with pytest.raises((viewlet.SqlError, RecursionError)):
        recurse(980)


ODD = [
    ("CREATE TABLE z (v DECIMAL(10,x))", "size of a type"),
    ("CREATE TABLE z (v DECIMAL(10,:x))", "size of a type"),
    ("CREATE TABLE z (v DECIMAL(1,2,3))", "a precision and a scale"),
    (f"CREATE TABLE z (v DECIMAL({'9' * 5000}))", "size of a type"),
    ("CREATE TABLE z (v BIGINT(8))", "type"),
    ("CREATE TABLE z (v TIMESTAMP(3))", "type"),
    ("INSERT INTO r (a)", "needs VALUES"),
    ("INSERT INTO r (a, b)", "needs VALUES"),
    ("INSERT INTO r", "."),
    (f"{VIEW} SELECT a FROM r WHERE a < 1{'0' * 5000}", "digits"),
    (f"{VIEW} SELECT a FROM r ORDER BY 1{'0' * 5000}", "select list"),
    (f"{VIEW} SELECT a FROM r GROUP BY 1{'0' * 5000}", "select list"),
    (f"{VIEW} SELECT a FROM r LIMIT 1{'0' * 5000}", "digits"),
    (f"{VIEW} SELECT DATE '2020-01-01' + INTERVAL 1{'0' * 5000} DAY AS d FROM r", "whole number"),
    (f"{VIEW} SELECT DATE '2020-01-01' + INTERVAL '1{'0' * 5000} day' AS d FROM r", "whole number"),
    (f"{VIEW} SELECT 1{'0' * 5000}.5 AS d FROM r", "."),
    (f"{VIEW} SELECT 1e{'9' * 5000} AS d FROM r", "."),
    (f"{VIEW} SELECT a FROM r ORDER BY ²", "."),
    ("SELECT '\ud800'", "surrogate"),
    ('CREATE TABLE "\ud800" (a INT)', "surrogate"),
    ("SELECT 1\0", "NUL"),
    ("SELECT\0 1", "NUL"),
    ("SELECT ?", "parameter"),
    (f"{VIEW} SELECT ? AS x FROM r", "parameter"),
    (f"{VIEW} SELECT $1 AS x FROM r", "."),
    (f"{VIEW} SELECT :x AS x FROM r", "."),
    (f"{VIEW} SELECT @x AS x FROM r", "."),
    ("\ufeffSELECT 1 +", "."),
]


@pytest.mark.parametrize(("sql", "message"), ODD)
def test_odd_texts_are_errors_of_ours(sql: str, message: str) -> None:
    with pytest.raises(viewlet.ViewletError, match=message) as caught:
        database().execute(sql)
    assert not isinstance(caught.value, viewlet.InternalError)
    assert len(str(caught.value)) < 12000


@pytest.mark.parametrize("sql", [None, b"SELECT 1", 1, ["SELECT 1"], object()])
def test_sql_is_a_string(sql: object) -> None:
    with pytest.raises(viewlet.SqlError, match="takes SQL as a string"):
        database().execute(sql)  # type: ignore[arg-type]


def test_long_names_and_texts_work() -> None:
    db, name = database(), "n" * 5000
    db.execute(f'CREATE TABLE "{name}" ("{name}" VARCHAR)')
    db.execute(f'CREATE MATERIALIZED VIEW "v{name}" AS SELECT "{name}" FROM "{name}"')
    db.execute(f"INSERT INTO \"{name}\" VALUES ('{name}')")
    assert db.view("v" + name).rows() == [(name,)]
    assert db.execute(f'SELECT "{name}" FROM "v{name}"').to_pylist() == [{name: name}]


def test_a_long_line_is_shown_in_part() -> None:
    with pytest.raises(viewlet.SqlError) as caught:
        database().execute(f"{VIEW} SELECT {'a + ' * 2000} zz AS x FROM r")
    assert caught.value.fragment == "zz"
    excerpt, carets = str(caught.value).splitlines()[-2:]
    assert len(excerpt) < 300
    assert excerpt[carets.index("^") : carets.rindex("^") + 1] == "zz"


COMMANDS = [
    ("CREATE TABLE x (a INT) FOO BAR", "FOO", "syntax error in CREATE"),
    ("SHOW r", "r", "syntax error in SHOW"),
    ("DROP", "DROP", "syntax error in DROP"),
    ("LOAD httpfs", "LOAD", "LOAD statement is not supported"),
    ("CALL pragma_version()", "CALL", "CALL statement is not supported"),
    ("ALTER TABLE r ADD COLUMN c frob 12", "ALTER", "ALTER statement is not supported"),
    ("VACUUM", "VACUUM", "not supported"),
]


@pytest.mark.parametrize(("sql", "fragment", "message"), COMMANDS)
def test_bare_commands_are_refused_with_their_place(
    sql: str, fragment: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(viewlet.SqlError, match=message) as caught:
        database().execute(sql)
    assert caught.value.fragment == fragment
    assert capfd.readouterr() == ("", "")


def test_the_log_of_sqlglot_is_quiet_for_us_only(caplog: pytest.LogCaptureFixture) -> None:
    import sqlglot

    with caplog.at_level(logging.DEBUG), pytest.raises(viewlet.SqlError):
        database().execute("CALL something()")
    assert not caplog.records
    sqlglot.parse_one("CALL something()")
    assert caplog.records
    assert logging.getLogger("sqlglot").level == logging.NOTSET


def test_words_in_quotes_are_no_keywords() -> None:
    db = database()
    db.execute('CREATE MATERIALIZED VIEW "as" AS SELECT \'SELECT (\' AS "case", a FROM r WHERE a > 0')
    assert db.view("as").rows() == [("SELECT (", 2)]
    db.execute("SELECT '(((', 'CASE'")
    assert db.explain("as", "sql").count("SELECT") == 2 if "sql" in db.explain("as") else True


@pytest.mark.parametrize("sql", ["SELECT d + 2 AS x FROM m", "SELECT s + INTERVAL 1 DAY AS x FROM m"])
def test_moments_that_python_has_not_are_read_with_arrow(sql: str) -> None:
    db = viewlet.connect(engine="interpreter")
    db.execute(f"CREATE TABLE m (d DATE, s TIMESTAMP); {VIEW} {sql}")
    db.insert("m", [("9999-12-31", "9999-12-31 23:00:00")])
    with pytest.raises(viewlet.DataError, match=r"to_arrow\(\)"):
        db.view("v").rows()
    assert db.view("v").to_arrow().num_rows == 1


def test_threads_read_deep_statements_side_by_side() -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            db = database()
            for n in (20, 60, 100):
                db.execute(nested("parentheses", n))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert sys.getrecursionlimit() == 1000
