"""`viewlet shell`: lines in, answers out; by pipes, and at a terminal."""

from __future__ import annotations

import os
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import DataError, SqlError
from viewlet.shell.completion import completions
from viewlet.shell.output import Format, print_rows
from viewlet.shell.session import COMMANDS, Shell
from viewlet.shell.terminal import MOST_ENTRIES, History

pty = pytest.importorskip("pty")
fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")

DECLARED = """
    CREATE TABLE orders (orderkey BIGINT PRIMARY KEY, custkey BIGINT, total DECIMAL(9,2));
    CREATE MATERIALIZED VIEW spend AS SELECT custkey, SUM(total) AS spent FROM orders GROUP BY custkey;
"""
ESCAPE = "\x1b[31m"
STYLE = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def db() -> Iterator[viewlet.Connection]:
    with viewlet.connect() as made:
        made.execute(DECLARED)
        yield made


def lines_of(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """What was printed on standard output and on standard error, without space that only aligns."""
    captured = capsys.readouterr()
    out, err = ([" ".join(line.split()) for line in text.splitlines()] for text in (captured.out, captured.err))
    return [line for line in out if line.strip(" ─")], err


# -- statements and commands ------------------------------------------------------------------------------------------


def test_statements_end_at_semicolons(db: viewlet.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(db, format=Format.CSV)
    prompts = []
    for line in ("-- nothing", "SELECT ';' AS a, -- ;", "  1 AS b /* ;", "*/ ; SELECT 2 AS c;", "SELECT 3 AS d"):
        shell.take(line)
        prompts.append(shell.prompt.strip())
    assert prompts == ["viewlet>", "...>", "...>", "viewlet>", "...>"]
    assert lines_of(capsys) == (["a,b", ";,1", "c", "2"], [])
    shell.take_all([])
    assert lines_of(capsys) == (["d", "3"], [])


def test_a_script_ends_at_its_first_error(db: viewlet.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    script = [
        "INSERT INTO orders VALUES (1, 7, 1.5);",
        "",
        "SELECT 1;",
        "SELECT custkey,",
        " nothing FROM orders; SELECT 2;",
    ]
    shell = Shell(db, format=Format.CSV)
    shell.take_all([*script, "SELECT 3;"])
    assert (shell.failed, shell.done) == (True, True)
    out, err = lines_of(capsys)
    assert out == ["1", "1"]
    assert err[:2] == ["error: column 'nothing' does not exist", "line 5: nothing FROM orders"]
    going = Shell(db, keep_going=True, format=Format.CSV)
    going.take_all([*script, ".nothing", "SELECT 3;"])
    out, err = lines_of(capsys)
    assert (out, going.failed, going.done) == (["1", "1", "2", "2", "3", "3"], True, False)
    assert [line for line in err if "error" in line] == [
        "error: duplicate key (orderkey) in orders: (orderkey=1, custkey=7, total=Decimal('1.50'))",
        "error: column 'nothing' does not exist",
        "error: there is no command .nothing: .help lists them",
    ]


def test_commands(db: viewlet.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(db, script=False)
    (tmp_path / "script.sql").write_text("INSERT INTO orders VALUES (1, 7, 1.5), (2, 7, 2);\n.mode json\nSELECT oops;")
    for line in (".mode csv", ".tables", ".watch spend", f".read {tmp_path / 'script.sql'}", "SELECT 5;"):
        shell.take(line)
    out, err = lines_of(capsys)
    assert out[:3] == ["name,kind,rows", "orders,TABLE,0", "spend,VIEW,0"]
    assert out[3:5] == ["custkey,spent,_multiplicity", "7,3.50,1"]
    assert "".join(out[5:]) == '[{"5": 5}]', "a script changes the mode, and its error ends it alone"
    assert err[:2] == ["changes of spend are shown as they come; .watch spend ends that", "spend in epoch 1:"]
    assert (err[2].endswith("script.sql: column 'oops' does not exist"), shell.done) == (True, False)
    for line in (
        ".watch spend",
        "DELETE FROM orders;",
        ".timer on",
        ".explain spend algebra",
        ".rows 1",
        ".mode table",
    ):
        shell.take(line)
    out, err = lines_of(capsys)
    assert err == ["spend is no longer watched", "2 rows"]
    assert "\n".join(db.explain("spend", "algebra").split()) == "\n".join(" ".join(out).split())
    shell.take("SELECT * FROM range(1234); exit;")
    out, err = lines_of(capsys)
    assert out == ["range", "0", "1,234 rows, of which the first 1 are shown"]
    assert re.fullmatch(r"[\d.]+ ms", err[0])
    shell.take(".help")
    listed = [line.split()[0] for line in lines_of(capsys)[0]]
    assert listed[:-1] == list(COMMANDS)
    shell.take(".read")
    shell.take(".timer perhaps")
    assert lines_of(capsys)[1] == ["error: .read needs a file", "error: .timer takes on or off: it is on now"]
    shell.take("exit")
    assert shell.done


def test_a_script_that_reads_itself_ends(
    db: viewlet.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "again.sql"
    script.write_text(f".read {script}")
    shell = Shell(db)
    shell.take(f".read {script}")
    (message,) = lines_of(capsys)[1]
    assert message.endswith("more than 16 scripts read each other")
    assert shell.done


# -- output -----------------------------------------------------------------------------------------------------------


def test_wide_tables_are_drawn_row_by_row(
    db: viewlet.Connection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = ", ".join(f"{i} AS column_number_{i}" for i in range(12))
    print_rows(db.execute(f"SELECT {wide}"), Format.TABLE)
    assert len(lines_of(capsys)[0]) == 2, "in a file, a row is one line"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    print_rows(db.execute(f"SELECT {wide}"), Format.TABLE)
    out = lines_of(capsys)[0]
    assert out[0].startswith("-- row 1")
    assert out[1:] == [f"column_number_{i} | {i}" for i in range(12)]
    print_rows(db.execute(f"SELECT 1 AS n, '{'word ' * 60}' AS said, '{ESCAPE}' AS \"{ESCAPE}\""), Format.TABLE)
    printed = capsys.readouterr().out
    assert printed.count("word") == 60
    assert ESCAPE not in printed
    assert max(len(STYLE.sub("", line)) for line in printed.splitlines()) <= 80


class Notebook:
    """What an extension of IPython uses of it."""

    def __init__(self) -> None:
        self.user_ns: dict[str, object] = {}
        self.magics: dict[str, Callable[..., Any]] = {}

    def register_magic_function(self, function: Callable[..., Any], kind: str, name: str) -> None:
        assert kind == "line_cell"
        self.magics[name] = function


def test_a_notebook_has_a_magic() -> None:
    notebook = Notebook()
    viewlet.load_ipython_extension(notebook)
    magic = notebook.magics["viewlet"]
    assert magic("", f"{DECLARED}; INSERT INTO orders VALUES (1, 7, 1.5), (2, 8, 2)") == 2
    found = magic("SELECT custkey, '<b>' AS b FROM spend ORDER BY custkey")
    assert (len(found), pa.table(found).to_pylist()[0]) == (2, {"custkey": 7, "b": "<b>"})
    assert "<caption>2 rows</caption>" in found._repr_html_()
    assert "<td>7</td><td>&lt;b&gt;</td>" in found._repr_html_()
    assert repr(found).split()[:2] == ["custkey", "b"]
    with pytest.raises(SqlError) as refused:
        magic("db", "SELECT 1;\nSELECT nothing FROM orders")
    shown = refused.value._render_traceback_()  # type: ignore[attr-defined]
    assert shown[:2] == ["error: column 'nothing' does not exist", "  line 2: SELECT nothing FROM orders"]
    notebook.user_ns["other"] = 5
    with pytest.raises(DataError, match="other is no connection"):
        magic("other", "SELECT 1")


# -- completion and history -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "word", "expected"),
    [
        ("", ".ti", [".timer"]),
        (".explain ", "", ["spend"]),
        (".mode ", "c", ["csv"]),
        ("", "sele", ["select"]),
        ("", "SELE", ["SELECT"]),
        ("SELECT * FROM ", "", ["orders", "spend"]),
        ("SELECT 1\nFROM ", "o", ["orders"]),
        ("SELECT custkey FROM spend WHERE ", "sp", ["spent", "spend"]),
        ("SELECT ", "orders.t", ["orders.total"]),
        ("SELECT ", "nothing.t", []),
        ("SELECT ", "tot", ["total"]),
    ],
)
def test_words_are_completed(db: viewlet.Connection, before: str, word: str, expected: list[str]) -> None:
    assert completions(db, before, word) == expected


def test_history_is_private_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "state" / "viewlet" / "history"
    history = History(path, None)
    for lines in (["SELECT 1;"], ["SELECT", "  2;"], [" secret;"], ["SELECT ' ", "';"]):
        for line in lines:
            history.note(line)
        history.end_entry()
    assert path.read_text().splitlines() == ["SELECT 1;", "SELECT 2;", "SELECT ' ", "';"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("".join(f"SELECT {i};\n" for i in range(2 * MOST_ENTRIES + 1)))
    path.chmod(0o644)
    assert len(History(path, None)._read()) == len(path.read_text().splitlines()) == MOST_ENTRIES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# -- as a program -----------------------------------------------------------------------------------------------------


def test_the_program_reads_a_script_and_tells_of_errors(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "d") as db:
        db.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2)")
    done = subprocess.run(
        [sys.executable, "-m", "viewlet", "shell", tmp_path / "d", "--mode", "csv"],
        input=b"SELECT * FROM t;\nSELECT b\nFROM t; SELECT 1",
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, b"a\n1\n2\n")
    assert done.stderr == b"error: column 'b' does not exist\n  line 2: SELECT b\n                 ^\n"


def _lead_terminal() -> None:
    """In a new process: its terminal is the one that it reads, whose Ctrl-C it hears."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A shell at the other end of a terminal."""

    def __init__(self, folder: Path) -> None:
        self._master, slave = pty.openpty()
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder),
            "TERM": "xterm",
            "COLUMNS": "100",
            "INPUTRC": "/dev/null",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "viewlet", "shell"],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
            preexec_fn=_lead_terminal,
        )  # fmt: skip
        os.close(slave)
        self._seen = ""

    def type(self, keys: str, *expected: str) -> str:
        """Types keys, waits for texts one after the other, and returns all that was shown up to the last."""
        os.write(self._master, keys.encode())
        shown = ""
        for each in expected:
            deadline = time.monotonic() + 30
            while each not in self._seen:
                assert time.monotonic() < deadline, f"{each!r} does not appear in {self._seen!r}"
                if select.select([self._master], [], [], 1)[0]:
                    self._seen += os.read(self._master, 65536).decode()
            before, _, self._seen = self._seen.partition(each)
            shown += before + each
        return shown

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_a_person_at_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        ready = "viewlet> "
        terminal.type("", ".help", ready)
        terminal.type("CREATE TABLE numbers (first_column BIGINT, other BIGINT);\n", ready)
        terminal.type("INSERT INTO numbers\n", "...> ")
        terminal.type("VALUES (42, 43);\n", "1 row", ready)
        terminal.type("SELECT firs\t FROM numb\t;\n", "42", ready)
        terminal.type("SELECT 'nothing\n", "...> ")
        time.sleep(0.2)  # a key that comes between the prompt and the wait for keys is seen with the next one
        terminal.type("\x03", ready)
        terminal.type("SELECT COUNT(*) FROM range(1000000) AS a, range(1000000000);\n", "\n")
        time.sleep(0.5)
        terminal.type("\x03", ready)
        terminal.type("SELECT nothing;\n", "error: column 'nothing' does not exist", "^", ready)
        terminal.type("SELECT chr(27) || '[31m' AS red;\n", r"\x1b[31m", ready)
        terminal.type("\x12VALUES (4\r", "1 row", ready)
        terminal.type("SELECT COUNT(*) AS n FROM numbers;\n", " 2 ", ready)
        terminal.type("\x04")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()
    entries = (tmp_path / "viewlet" / "history").read_text().splitlines()
    assert entries[1:3] == ["INSERT INTO numbers VALUES (42, 43);", "SELECT first_column FROM numbers;"]
    assert not any("'nothing" in entry for entry in entries)
