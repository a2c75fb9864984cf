"""The server of the page: what it answers, whom it refuses, and that batches and hostile names leave it alone."""

from __future__ import annotations

import http.client
import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import viewlet
from viewlet.errors import StateError
from viewlet.ui.queries import Queries
from viewlet.ui.server import UserInterface
from viewlet.ui.subject import Directory

HOSTILE = [
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "a\nb\x1b[31m",
    "ü'\"; --",
    "\u202eevil",
    "__proto__",
    "%2e%2e/",
]


class Client:
    """A browser without its manners: it sends what it is told."""

    def __init__(self, url: str) -> None:
        self.place, self.root = urlsplit(url).netloc, urlsplit(url).path

    def send(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, bytes, Any]:
        connection = http.client.HTTPConnection(self.place, timeout=20)
        connection.putrequest(method, path, skip_host="Host" in headers)
        known = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            known = {"Content-Type": "application/json", "Content-Length": str(len(body.encode()))} | known
        for name, value in known.items():
            connection.putheader(name, value)
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        found = answer.status, answer.read(), answer.headers
        connection.close()
        return found

    def get(self, page: str, **parameters: object) -> Any:
        asked = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())
        status, body, _ = self.send(f"{self.root}api/{page}?{asked}")
        answer = json.loads(body)
        assert status == 200, answer
        return answer

    def query(self, sql: str) -> Any:
        return json.loads(self.send(f"{self.root}api/query", "POST", json.dumps({"sql": sql}))[1])

    def rows(self, listing: Any, first: int = 0, most: int = 100) -> list[list[str | None]]:
        return self.get("rows", listing=listing["listing"], first=first, most=most)["rows"]


@pytest.fixture(scope="module")
def db() -> Iterator[viewlet.Connection]:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE sales (city VARCHAR NOT NULL, euros BIGINT NOT NULL)")
        db.execute("CREATE STREAM passing (x BIGINT)")
        db.execute("CREATE SEQUENCE numbers")
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT city, SUM(euros) AS euros FROM sales GROUP BY city")
        for number, name in enumerate(HOSTILE):
            column, text = (each.replace('"', '""') for each in (name, name))
            db.execute(f'CREATE TABLE "{text}" ("{column}" VARCHAR)')
            db.execute(
                f'CREATE MATERIALIZED VIEW "v{text}" AS SELECT "{column}", COUNT(*) AS n FROM "{text}" GROUP BY 1'
            )
            db.insert(name, [(name,), (str(number),)])
        db.insert("sales", [("Oslo", 3), ("Oslo", 4), ("Rome", 5)])
        yield db


@pytest.fixture(scope="module")
def page(db: viewlet.Connection) -> Iterator[UserInterface]:
    with db.serve_ui() as page:
        yield page


@pytest.fixture
def client(page: UserInterface) -> Client:
    return Client(page.url)


# -- who is answered --------------------------------------------------------------------------------------------------


def test_the_page_and_its_files_have_a_strict_policy(client: Client) -> None:
    status, body, headers = client.send(client.root)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b'<script type="module" src="main.js"></script>' in body
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert not [name for name in headers if name.startswith("Access-Control")]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert client.send(f"{client.root}main.js")[2]["Content-Type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("token", ["", "x", "%00", "ü" * 43, "x" * 43, "x" * 60_000])
def test_without_the_token_nothing_is_answered(client: Client, token: str) -> None:
    for path in ("/", "/main.js", "/api/state", "/favicon.ico", f"/{quote(token)}/", f"/{quote(token)}/api/state"):
        status, body, _ = client.send(path)
        assert status == 403, path
        assert client.root.encode() not in body
    assert client.send(f"/{quote(token)}/api/query", "POST", "{}")[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[", "127.0.0.1@evil.example", "0.0.0.0"]
)
def test_another_host_name_is_refused(client: Client, host: str) -> None:
    assert client.send(client.root, Host=host)[0] in (400, 403)


def test_this_host_has_two_names(client: Client) -> None:
    for host in ("localhost", "localhost:9999", "127.0.0.1:1"):
        assert client.send(client.root, Host=host)[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "../server.py",
        "%2e%2e/server.py",
        "..%2fserver.py",
        "static/main.js",
        "api",
        "api/",
        "/etc/passwd",
        "main.js/",
        "api/query",
    ],
)
def test_only_files_of_the_page_are_sent(client: Client, path: str) -> None:
    assert client.send(client.root + path)[0] == 404


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "INVENTED"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    assert client.send(f"{client.root}api/state", method)[0] in (405, 501)


def test_only_a_request_of_the_page_is_a_query(client: Client) -> None:
    path, body = f"{client.root}api/query", '{"sql": "SELECT 1"}'
    assert client.send(path, "POST", body)[0] == 200
    assert client.send(path, "POST", body, Origin="http://evil.example")[0] == 403
    assert client.send(path, "POST", body, Content_Type="text/plain")[0] == 415
    assert client.send(path, "POST", body, Content_Length="-1")[0] == 411
    assert client.send(path, "POST", body, Content_Length="9" * 5000)[0] == 413
    for wrong in ("", "[]", "{}", '{"sql": 1}', "[" * 100_000):
        assert client.send(path, "POST", wrong)[0] == 400


@pytest.mark.parametrize(
    "asked",
    [
        "state?since=x&=%zz",
        "rows",
        "rows?listing=a&first=0&most=1",
        "relation",
        "relation?name=%ff",
        "listing?name=none",
        "picture?name=sales",
    ],
)
def test_a_wrong_parameter_is_an_error_of_the_caller(client: Client, asked: str) -> None:
    status, body, _ = client.send(f"{client.root}api/{asked}")
    assert status in (200, 400)
    assert status == 200 or json.loads(body)["error"]


# -- what is answered -------------------------------------------------------------------------------------------------


def test_figures_change_with_batches(db: viewlet.Connection, client: Client, page: UserInterface) -> None:
    before = client.get("state")
    assert client.get("state", since=before["number"]).keys() == {"number", "messages"}
    db.insert("sales", [("Bonn", 1)])
    page.pages.figures.due = 0.0
    after = client.get("state", since=before["number"])
    (sales, total), (_, new) = (
        [each for each in state["relations"] if each["name"] in ("sales", "total")] for state in (before, after)
    )
    assert (total["sources"], total["kind"], sales["kind"]) == (["sales"], "view", "table")
    assert (new["rows"] - total["rows"], new["batches"] - total["batches"]) == (1, 1)
    assert new["seconds"].keys() == {"sales"}
    assert after["epoch"] == before["epoch"] + 1
    db.delete("sales", [("Bonn", 1)])


def test_a_view_is_described(client: Client) -> None:
    found = client.get("relation", name="TOTAL")
    assert found["sql"].endswith("SELECT city, SUM(euros) AS euros FROM sales GROUP BY city")
    assert found["explain"].startswith("view total")
    assert found["columns"][0] == {"name": "city", "type": "VARCHAR NOT NULL"}
    assert client.get("relation", name="sales")["readers"] == ["total"]


def test_a_listing_stays_what_it_is(db: viewlet.Connection, client: Client) -> None:
    listing = client.get("listing", name="total")
    assert client.get("listing", name="total")["listing"] == listing["listing"]
    assert client.rows(listing) == [["Oslo", "7"], ["Rome", "5"]]
    db.insert("sales", [("Aachen", 1)])
    assert client.rows(listing, 1) == [["Rome", "5"]]
    assert client.rows(client.get("listing", name="total"), 0, 1) == [["Aachen", "1"]]
    db.delete("sales", [("Aachen", 1)])
    assert client.send(f"{client.root}api/rows?listing=999&first=0&most=1")[0] == 410


def test_pages_of_many_rows(client: Client) -> None:
    listing = client.query("SELECT i, i * 2 AS twice FROM range(1_500_000) t(i)")
    assert (listing["total"], listing["cut"]) == (1_000_000, True)
    assert client.rows(listing, 999_999, 5) == [["999999", "1999998"]]
    assert len(client.rows(listing, 5, 10**9)) == 1_000
    assert client.rows(listing, -3, -4) == client.rows(listing, 10**12) == []


def test_hostile_names_and_values_are_data(client: Client) -> None:
    for name in HOSTILE:
        assert client.get("relation", name=f"v{name}")["stats"]["sources"] == name
        rows = client.rows(client.get("listing", name=f"v{name}"))
        assert len(rows) == 2
        assert all(cell.isprintable() for row in rows for cell in row if cell is not None)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELEC 1", "SELEC"),
        ("SELECT wrong FROM sales", "'wrong'"),
        ("SELECT * FROM passing", "streams"),
        ("DELETE FROM sales", "only SELECT"),
        ("DROP TABLE sales", "only SELECT"),
        ("SELECT 1; DELETE FROM sales", "one statement"),
        ("SELECT nextval('numbers')", "sequence"),
        ("BEGIN", "only SELECT"),
        ("COPY sales TO '/tmp/x.csv'", ""),
        ("SELECT * FROM '/etc/passwd'", ""),
        ("SET threads = 1", ""),
        ("", "one statement"),
    ],
)
def test_what_is_no_query_is_refused(db: viewlet.Connection, client: Client, sql: str, problem: str) -> None:
    before = db.epoch, db.tables
    assert problem in client.query(sql)["error"]
    assert before == (db.epoch, db.tables)


def test_queries_read_tables_views_and_the_catalogue(client: Client) -> None:
    assert client.rows(client.query("SELECT SUM(euros), NULL FROM total")) == [["12", None]]
    assert client.rows(client.query("EXPLAIN total"))[0] == ["view total (higher-order)"]
    assert ["total", "VIEW"] in [row[:2] for row in client.rows(client.query("SHOW TABLES"))]


def test_a_query_holds_up_no_batch_and_can_be_cancelled(
    db: viewlet.Connection, client: Client, page: UserInterface
) -> None:
    answers: list[Any] = []
    endless = "SELECT COUNT(*) FROM range(10_000_000_000) a, range(1000) b WHERE a.range % 7 = b.range"
    thread = threading.Thread(target=lambda: answers.append(client.query(endless)))
    thread.start()
    while not page.pages.queries.is_answering:
        thread.join(0.001)
    db.insert("sales", [("Bern", 1)])
    assert "another query" in client.query("SELECT 1")["error"]
    client.send(f"{client.root}api/cancel", "POST", "{}")
    thread.join(20)
    assert "cancelled" in answers[0]["error"]
    db.delete("sales", [("Bern", 1)])


def test_a_query_ends_after_its_time(db: viewlet.Connection, page: UserInterface) -> None:
    with pytest.raises(viewlet.DataError, match="took longer"):
        Queries(seconds=0.1).answer(page.pages.source(), "SELECT COUNT(*) FROM range(10_000_000_000) a, range(1000) b")


def test_warnings_are_shown_and_still_reach_the_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("viewlet").warning("a snapshot failed: %s", "no <room>")
    assert client.get("messages")["messages"][0]["text"] == "a snapshot failed: no <room>"
    assert "no <room>" in caplog.text
    assert client.get("state")["messages"] >= 1


# -- its life ---------------------------------------------------------------------------------------------------------


def test_it_ends_with_its_connection() -> None:
    db = viewlet.connect()
    page = db.serve_ui()
    with pytest.raises(StateError, match="port"):
        db.serve_ui(urlsplit(page.url).port or 0)
    db.close()
    page.close()
    with pytest.raises(OSError):  # noqa: PT011 - the system words it
        Client(page.url).send("/")
    with pytest.raises(StateError, match="port"):
        viewlet.connect().serve_ui(10**6)


def test_a_directory_is_followed_while_another_connection_writes_it(tmp_path: Path) -> None:
    place = tmp_path / "state"
    with viewlet.connect(place) as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        db.insert("t", [(1,)])
        source = Directory(str(place))
        with UserInterface(source) as page:
            client = Client(page.url)
            files = sorted(each.name for each in place.iterdir())
            assert client.rows(client.get("listing", name="t")) == [["1"]]
            assert "only SELECT" in client.query("INSERT INTO t VALUES (2)")["error"]
            assert files == sorted(each.name for each in place.iterdir())
            db.insert("t", [(2,)])
            db.checkpoint()
            source.due = 0.0
            assert client.rows(client.get("listing", name="t")) == [["1"], ["2"]]
        db.execute("CREATE STREAM s (at TIMESTAMP) PARTITION LENGTH 60 BY at")
        with pytest.raises(StateError, match="only by the process"):
            Directory(str(place))
    with pytest.raises(StateError, match="check the path"):
        Directory(str(tmp_path / "nothing"))


@pytest.mark.slow
def test_the_command_prints_the_address(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "state") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
    command = [sys.executable, "-m", "viewlet", "ui", str(tmp_path / "state")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        client = Client(process.stdout.readline().strip())
        assert client.query("SHOW TABLES")["total"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
