"""However a query over a window is written, it is kept by the same helper, and has the rows that DuckDB has.

Positions, names of SELECT, qualified and unqualified columns, upper and lower case, GROUP BY ALL.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import duckdb
import pytest

import viewlet
from tests.streams.model import at
from viewlet.errors import SqlError

ROUNDS = 5 * int(os.environ.get("VIEWLET_STREAMS", "2"))
M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"
SPELLINGS = {
    "g AS g, SUM(x) AS s": ("g", "1", "m.g", "G", "ALL", '"g"'),
    "m.g, SUM(x) AS s": ("g", "1", "m.g", "ALL"),
    "UPPER(g) AS u, SUM(m.x) AS s": ("u", "U", "1", "UPPER(m.g)", "ALL", '"u"'),
    "SUM(X) AS s, m.G AS k": ("k", "2", "g", "ALL"),
    "g, SUM(x) AS s, s + 1 AS t": ("g", "ALL"),
    "g, COUNT(*) AS n, SUM(x) AS x": ("1", "m.g"),
    "UPPER(g) AS g, SUM(x) AS s": ("g", "1"),
}
HAVINGS = ("", "HAVING {} > 3", "HAVING {} > 3 AND COUNT(*) > 1", "HAVING -{} < 2 OR COUNT(m.x) = 1")
FORMS = {
    "m [WINDOW 6 MINUTES]": "",
    "TUMBLE(m, INTERVAL '6' MINUTES)": "window_start",
    "SESSION(m PARTITION BY g, INTERVAL '6' MINUTES)": "window_start",
}


def queries() -> list[tuple[str, str, str]]:
    found = []
    for select, groups in SPELLINGS.items():
        for group in groups:
            for having in HAVINGS:
                total = "x" if "AS x" in select else "s"
                found.append((select, group, having.format(total)))
    return found


@pytest.mark.parametrize("form", FORMS)
def test_every_spelling_is_kept_by_a_helper_and_right(form: str) -> None:
    chance = random.Random(form)
    rows = [(at(chance.randrange(360)), chance.choice(("a", "A", "b")), chance.randrange(-3, 6)) for _ in range(20)]
    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE m (ts TIMESTAMP, g VARCHAR, x BIGINT)")
    oracle.executemany("INSERT INTO m VALUES (?, ?, ?)", rows)
    db, expected = viewlet.connect(), []
    db.execute(M)
    bound = FORMS[form]
    chosen = chance.sample(queries(), min(ROUNDS, len(queries())))
    if form.startswith("SESSION"):
        chosen = [each for each in chosen if "UPPER" not in each[0] or each[1] != "g"]
    for number, (select, group, having) in enumerate(chosen):
        grouped = group if group == "ALL" or not bound else f"{group}, {bound}"
        shown = select if not bound or group != "ALL" else f"{select}, {bound}"
        source = f"{form} AS m" if bound else form
        db.execute(f"CREATE VIEW v{number} AS SELECT {shown} FROM {source} GROUP BY {grouped} {having}")
        if "SESSION" not in form:
            assert "helpers are merged" in db.explain(f"v{number}", "class"), (select, group, having)
            expected.append(oracle.execute(f"SELECT {select} FROM m GROUP BY {group} {having}").fetchall())
        else:
            assert "fragments" in db.explain(f"v{number}", "maintenance"), (select, group, having)
    db.insert("m", rows)
    db.close_parts("m", at(360))
    for number, answer in enumerate(expected):
        width = len(answer[0]) if answer else 0
        newest = db.view(f"v{number}").newest().to_pylist()
        found = Counter(tuple(row.values())[:width] for row in newest)
        assert found == Counter(answer), (chosen[number], found, answer)


@pytest.mark.parametrize(
    "call",
    [
        *("random()", '"random"()', "hash(uuid())", "year(now()::TIMESTAMP)", "year(current_date)", "year(today())"),
        *("year(current_timestamp::TIMESTAMP)", "len(current_user)", "len(version())"),
        *("year(age(TIMESTAMP '2015-01-01'))", "year(current_localtimestamp())", "year(DATE 'today')"),
        *("year('Now'::TIMESTAMP)", "year(CAST('tomorrow' AS DATE))"),
    ],
)
def test_parts_are_not_made_by_functions_that_answer_differently_each_time(call: str) -> None:
    db = viewlet.connect()
    db.execute(M)
    value = f"CAST({call} AS DOUBLE)"
    named = "MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES COUNT(*) AS n PATTERN (a b)"
    for statement in (
        f"CREATE VIEW v AS INITIALIZE v[i] AS SELECT x, {value} AS r FROM m[i] UPDATE v[j] AS SELECT x, 1 FROM m[j]",
        f"CREATE VIEW v AS INITIALIZE v[i] AS SELECT x FROM m[i] UPDATE v[j] AS SELECT x FROM m[j] WHERE {value} > 1",
        f"CREATE VIEW v AS INITIALIZE v[i] AS SELECT x FROM m[i] UPDATE v[j] AS SELECT x FROM m[j], "
        f"w AS INITIALIZE w[i] AS SELECT x FROM v[i] UPDATE w[j] AS SELECT x FROM v[j] WHERE {value} > 1",
        f"CREATE VIEW v AS SELECT g, SUM({value}) AS r FROM m [WINDOW 3 MINUTES] GROUP BY g",
        f"CREATE VIEW v AS SELECT g, SUM({value}) AS r FROM TUMBLE(m, INTERVAL '3' MINUTES) GROUP BY g",
        f"CREATE VIEW v AS SELECT g, SUM({value}) AS r FROM m GROUP BY g, window(ts, '3 minutes')",
        f"CREATE VIEW v AS SELECT g, SUM({value}) AS r FROM SESSION(m PARTITION BY g, INTERVAL '1' MINUTE) GROUP BY g",
        f"CREATE VIEW v AS SELECT ts, LAG(x) OVER (PARTITION BY g ORDER BY ts) + {value} AS r FROM m",
        f"CREATE VIEW v AS SELECT g, x, {value} AS r FROM GAPFILL(m PARTITION BY g)",
        f"CREATE VIEW v AS SELECT g, n FROM m {named} DEFINE a AS x > {value})",
        f"CREATE VIEW v AS SELECT g, n FROM m {named} DEFINE a AS x > 1) WHERE n > {value}",
    ):
        with pytest.raises(SqlError, match="another one each time"):
            db.execute(statement)
    assert not list(db.views)


STRANGE = [
    *(
        "checkpoint()",
        "force_checkpoint()",
        "duckdb_tables()",
        "duckdb_settings()",
        "pragma_version()",
        "duckdb_logs()",
    ),
    *(
        "query('SELECT 1')",
        "query_table('t')",
        "read_text('x')",
        "glob('*')",
        "which_secret('a', 'b')",
        "test_all_types()",
    ),
    "json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
]


@pytest.mark.parametrize("call", STRANGE)
def test_table_functions_that_read_or_change_the_host_are_refused(call: str) -> None:
    db = viewlet.connect()
    db.execute(M)
    for text in (f"SELECT x FROM m[i], {call} AS q", f"SELECT x FROM m[i] WHERE x IN (SELECT 1 FROM {call} AS q)"):
        with pytest.raises(SqlError, match="is no table function of queries over parts"):
            db.stream_view("v", initialize=text)
    assert not list(db.views)


def test_table_functions_of_arguments_alone_make_rows() -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM m (ts TIMESTAMP, x BIGINT) PARTITION LENGTH 60 BY ts")
    for name, call in [
        ("a", "range(m.x) AS q(n)"),
        ("b", "generate_series(0, m.x - 1) AS q(n)"),
        ("c", "unnest([0, 1]) AS q(n)"),
    ]:
        db.stream_view(name, initialize=f"SELECT x, q.n::BIGINT AS n FROM m[i] AS m, {call}")
    db.insert("m", [(at(0), 2), (at(60), 1)])
    for name in "abc":
        assert [row[:2] for row in db.view(name).rows()] == [(2, 0), (2, 1)]


@pytest.mark.parametrize(
    "call", ["has_table_privilege('m', 'SELECT')", "pg_catalog.pg_table_is_visible(1)", "write_log('a')"]
)
def test_functions_that_tell_of_the_host_are_refused(call: str) -> None:
    db = viewlet.connect()
    db.execute(M)
    with pytest.raises(SqlError, match="another one each time"):
        db.stream_view("v", initialize=f"SELECT x FROM m[i] WHERE {call} IS NULL")


def test_columns_may_have_the_names_of_such_functions() -> None:
    db = viewlet.connect()
    db.execute('CREATE STREAM m (ts TIMESTAMP, "user" VARCHAR, now BIGINT) PARTITION LENGTH 60 BY ts')
    db.stream_view("v", initialize="SELECT user, now, now AS random FROM m[i]")
    db.insert("m", [(at(0), "ada", 1), (at(60), "bo", 2)])
    assert db.view("v").rows() == [("ada", 1, 1, at(0))]


def test_all_that_having_reads_is_grouped_by_too() -> None:
    """DuckDB groups by x itself where HAVING reads `odd`, so no helper with groups of `odd` has the answer."""
    query = "SELECT g, x % 2 AS odd, COUNT(*) AS n FROM {} GROUP BY ALL HAVING odd >= 0"
    db, oracle = viewlet.connect(), duckdb.connect()
    db.execute(M)
    db.execute(f"CREATE VIEW v AS {query.format('m [WINDOW 6 MINUTES]')}")
    rows = [(at(60 * (x % 6)), "a", x) for x in range(12)]
    oracle.execute("CREATE TABLE m (ts TIMESTAMP, g VARCHAR, x BIGINT)")
    oracle.executemany("INSERT INTO m VALUES (?, ?, ?)", rows)
    db.insert("m", rows)
    db.close_parts("m", at(360))
    newest = [(row["g"], row["odd"], row["n"]) for row in db.view("v").newest().to_pylist()]
    assert Counter(newest) == Counter(oracle.execute(query.format("m")).fetchall())
