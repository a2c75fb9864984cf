"""The command line, called the way the installed script calls it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewlet
from viewlet import cli

SCRIPT = """
CREATE TABLE orders (orderkey BIGINT PRIMARY KEY, custkey BIGINT, total DECIMAL(15,2), code VARCHAR);
CREATE MATERIALIZED VIEW spend AS
  SELECT custkey, SUM(total) AS total, COUNT(*) AS n FROM orders GROUP BY custkey ORDER BY custkey;
SELECT * FROM spend ORDER BY custkey; -- the answer; all of it
"""
CSV = "orderkey,custkey,total,code\n1,7,10.50,007\n2,7,4.50,008\n3,8,1.25,\n"
ROWS = [
    {"orderkey": 1, "custkey": 7, "total": "10.50", "code": "007"},
    {"orderkey": 2, "custkey": 7, "total": "4.50", "code": "008"},
    {"orderkey": 3, "custkey": 8, "total": "1.25", "code": None},
]
ANSWER = "custkey,total,n\n7,15.00,2\n8,1.25,1\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls `viewlet ARGUMENTS` in an empty directory that holds the given files."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, **files: str) -> Outcome:
        for name, text in files.items():
            Path(name.replace("__", ".")).write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit) as leaving:
            cli.main(list(arguments))
        captured = capsys.readouterr()
        return Outcome(int(leaving.value.code or 0), captured.out, captured.err)

    return call


def write_parquet(path: str) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path)


def test_version(run: Run) -> None:
    assert run("--version").out == f"viewlet {viewlet.__version__}\n"


def test_run_prints_results_and_closes_with_a_summary(run: Run) -> None:
    outcome = run("run", "s.sql", "--load", "orders=o.csv", "--format", "csv", s__sql=SCRIPT, o__csv=CSV)
    assert (outcome.code, outcome.out) == (0, ANSWER)
    assert outcome.err == "3 statements, 3 rows loaded, epoch 1\n"


def test_run_prints_a_table_by_default(run: Run) -> None:
    outcome = run("run", "s.sql", "--load", "orders=o.csv", s__sql=SCRIPT, o__csv=CSV)
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["custkey", "total", "n"] in lines
    assert ["7", "15.00", "2"] in lines


def test_run_prints_json_with_exact_decimals(run: Run) -> None:
    outcome = run("run", "s.sql", "--load", "orders=o.csv", "--format", "json", s__sql=SCRIPT, o__csv=CSV)
    assert json.loads(outcome.out)[0] == {"custkey": 7, "total": "15.00", "n": 2}


@pytest.mark.parametrize("text", [json.dumps(ROWS), "\n".join(map(json.dumps, ROWS))], ids=["array", "lines"])
def test_run_loads_json(run: Run, text: str) -> None:
    assert run("run", "s.sql", "--load", "orders=o.json", "--format", "csv", s__sql=SCRIPT, o__json=text).out == ANSWER


def test_run_loads_parquet(run: Run) -> None:
    write_parquet("o.parquet")
    assert run("run", "s.sql", "--load", "ORDERS=o.parquet", "--format", "csv", s__sql=SCRIPT).out == ANSWER


def test_csv_columns_are_read_with_the_types_of_the_table(run: Run) -> None:
    script = "CREATE TABLE t (code VARCHAR, d DECIMAL(30,10)); SELECT * FROM t"
    text = "code,d\n007,12345678901234567890.0123456789\n"
    assert run("run", "s.sql", "--load", "t=t.csv", "--format", "csv", s__sql=script, t__csv=text).out == text


def test_a_stream_is_filled_after_its_views_are_declared(run: Run) -> None:
    outcome = run(
        "run",
        "s.sql",
        "--load",
        "orders=o.csv",
        "--format",
        "csv",
        s__sql=SCRIPT.replace("CREATE TABLE", "CREATE STREAM"),
        o__csv=CSV,
    )
    assert outcome.out == ANSWER


def test_a_static_table_is_filled_before_its_views_are_declared(run: Run) -> None:
    script = SCRIPT.replace("CREATE TABLE", "CREATE STATIC TABLE")
    assert run("run", "s.sql", "--load", "orders=o.csv", "--format", "csv", s__sql=script, o__csv=CSV).out == ANSWER


WRONG = {
    "no such script": (["run", "absent.sql"], {}, "cannot read absent.sql"),
    "syntax": (["run", "s.sql"], {"s__sql": "SELECT 1;\nSELEC 2"}, "line 2"),
    "unknown table": (["run", "s.sql"], {"s__sql": "SELECT * FROM nowhere"}, "nowhere"),
    "no such file": (
        ["run", "s.sql", "--load", "orders=absent.csv"],
        {"s__sql": SCRIPT},
        "there is no file absent.csv",
    ),
    "load without =": (["run", "s.sql", "--load", "orders"], {"s__sql": SCRIPT}, "expected TABLE=FILE"),
    "load of another format": (["run", "s.sql", "--load", "orders=o.xls"], {"s__sql": SCRIPT}, ".csv"),
    "load of an unknown table": (
        ["run", "s.sql", "--load", "others=o.csv"],
        {"s__sql": SCRIPT, "o__csv": CSV},
        "others, but the script creates no such table (tables: orders)",
    ),
    "bad parquet": (
        ["run", "s.sql", "--load", "orders=o.parquet"],
        {"s__sql": SCRIPT, "o__parquet": "not parquet"},
        "cannot read o.parquet as Parquet",
    ),
    "bad json": (["run", "s.sql", "--load", "orders=o.json"], {"s__sql": SCRIPT, "o__json": "{"}, "as JSON"),
    "bad value": (
        ["run", "s.sql", "--load", "orders=o.csv"],
        {"s__sql": SCRIPT, "o__csv": CSV.replace("10.50", "ten")},
        "ten",
    ),
    "explain of nothing": (["explain", "q.sql"], {"q__sql": "-- nothing"}, "holds no statement"),
    "explain of a table": (["explain", "q.sql"], {"q__sql": "CREATE TABLE t (a INT)"}, "neither a SELECT"),
}


@pytest.mark.parametrize("case", WRONG)
def test_user_errors_are_one_block_and_exit_code_2(run: Run, case: str) -> None:
    arguments, files, message = WRONG[case]
    outcome = run(*arguments, **files)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err


def test_explain_shows_the_triggers_of_a_query(run: Run) -> None:
    schema, query = "CREATE TABLE r (a INT, b INT);", "SELECT a, SUM(b) AS s FROM r GROUP BY a"
    outcome = run("explain", "q.sql", "--schema", "schema.sql", schema__sql=schema, q__sql=query)
    assert outcome.code == 0
    assert re.search(r"\br\b", outcome.out)
    stage = run("explain", "q.sql", "--schema", "schema.sql", "--stage", "algebra")
    assert stage.code == 0
    assert len(stage.out) < len(outcome.out)


def test_explain_takes_a_view_declaration(run: Run) -> None:
    text = "CREATE TABLE r (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM r;"
    assert run("explain", "q.sql", q__sql=text).code == 0


def test_views_over_rings_are_declared_read_and_explained(run: Run) -> None:
    text = "CREATE TABLE t (x DOUBLE); INSERT INTO t VALUES (2.0);"
    view = "CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x) AS c FROM t;"
    outcome = run("run", "q.sql", "--format", "json", q__sql=f"{text} {view} SELECT c.sums AS s FROM m;")
    assert json.loads(outcome.out) == [{"s": [2.0]}]
    assert "V@x[]" in run("explain", "q.sql", "--stage", "view-tree", q__sql=f"{text} SELECT COFACTOR(x) FROM t").out


def test_the_installed_module_runs_as_a_program() -> None:
    command = [sys.executable, "-c", "from viewlet.cli import main; main()", "--help"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all(name in finished.stdout for name in ("run", "explain", "demo"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_the_demo_checks_out_and_writes_a_plain_log(engine: str) -> None:
    if engine == "spark":
        pytest.importorskip("pyspark")
    demo = ["demo", "--scale", "0.001", "--engine", engine]
    command = [sys.executable, "-c", "from viewlet.cli import main; main()", *demo]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "Every view equals its recomputation." in finished.stdout
    assert "\x1b" not in finished.stdout


def test_a_file_is_the_one_that_is_named(run: Run) -> None:
    """Characters that DuckDB would match other names with, and folders that it would take for columns."""
    script = "CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t; SELECT * FROM v"
    for number, name in enumerate(("data1.csv", "data[1].csv", "d*.csv", "d?.csv", "a=5/data.csv", "{x,y}.csv")):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"a\n{number}\n")
    for number, name in enumerate(("data1.csv", "data[1].csv", "d*.csv", "d?.csv", "a=5/data.csv", "{x,y}.csv")):
        assert run("run", "s.sql", "--load", f"t={name}", "--format", "csv", s__sql=script).out == f"s\n{number}\n"
    pq.write_table(pa.table({"a": [7]}), "a=5/data.parquet")
    assert run("run", "s.sql", "--load", "t=a=5/data.parquet", "--format", "csv", s__sql=script).out == "s\n7\n"


def test_names_of_columns_are_no_sql(run: Run) -> None:
    Path("secret.txt").write_text("TOPSECRET")
    name = "a': (SELECT content FROM read_text('secret.txt')), 'b"
    script = f'CREATE TABLE t ("{name}" VARCHAR, "b" VARCHAR); SELECT * FROM t'
    outcome = run("run", "s.sql", "--load", "t=t.csv", "--format", "csv", s__sql=script, t__csv=f'"{name}",b\nx,y\n')
    assert "TOPSECRET" not in outcome.out + outcome.err
    assert outcome.out.splitlines()[-1] == "x,y"


@pytest.mark.parametrize("text", ["[" * 100_000, '[{"a": 1e99999999999999999999}]', f'[{{"a": {"9" * 9_000}}}]'])
def test_json_that_python_does_not_read_is_refused(text: str, run: Run) -> None:
    Path("t.json").write_bytes(text.encode(errors="surrogatepass"))
    outcome = run("run", "s.sql", "--load", "t=t.json", s__sql="CREATE TABLE t (a BIGINT)")
    assert outcome.code == 2
    assert outcome.err.startswith("error: cannot read t.json")


@pytest.mark.parametrize(
    "text", ["1.5", "1e-1", "0x10", "1_0", "true", "-0.25", "99999999999999999999", "1.0000000001"]
)
def test_a_csv_file_is_not_rounded(run: Run, text: str) -> None:
    Path("script.sql").write_text('CREATE TABLE t ("a ""b" BIGINT, i SMALLINT); SELECT * FROM t;')
    for name in ('"a ""b"', "I"):
        Path("t.csv").write_text(f"{name}\n7\n{text}\n")
        found = run("run", "script.sql", "--load", "t=t.csv")
        assert found.code == 2
        assert "cannot read t.csv as CSV" in found.err
    Path("t.csv").write_text('"a ""b",I\n-7.0,+5\n , 32767\n12.,\n')
    assert run("run", "script.sql", "--load", "t=t.csv", "--format", "csv").code == 2, "a blank is no integer"
    Path("t.csv").write_text('"a ""b",I\n-7.0,+5\n, 32767\n12.,\n')
    found = run("run", "script.sql", "--load", "t=t.csv", "--format", "csv")
    assert (found.code, found.out) == (0, '"a ""b",i\n-7,5\n12,\n,32767\n')


@pytest.mark.parametrize("format", ["table", "csv", "json"])
@pytest.mark.parametrize("value", ["DATE '9999-12-31' + 5", "'infinity'::TIMESTAMP", "'0044-03-15 (BC)'::DATE"])
def test_times_that_python_does_not_have_are_printed(run: Run, value: str, format: str) -> None:
    Path("script.sql").write_text(f"SELECT {value} AS d, 1 AS n;")
    found = run("run", "script.sql", "--format", format)
    assert found.code == 0
    assert "1" in found.out
    Path("script.sql").write_text(f"SELECT [{value}] AS d;")
    found = run("run", "script.sql", "--format", format)
    assert found.code == 2
    assert "cannot be shown" in found.err
