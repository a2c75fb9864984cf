"""The HTTP server of the page, for one person on this machine.

    GET  /TOKEN/                                          the page, and its files
    GET  /TOKEN/api/state?since=NUMBER                    figures that change
    GET  /TOKEN/api/relation?name=NAME                    one table or view
    GET  /TOKEN/api/picture?name=NAME                     its view tree, as SVG
    GET  /TOKEN/api/listing?name=NAME                     its rows as they are now, of which follow
    GET  /TOKEN/api/rows?listing=NUMBER&first=N&most=N    some
    GET  /TOKEN/api/messages                              the end of the log
    POST /TOKEN/api/query, /TOKEN/api/cancel              {"sql": ...}: a listing of the answer

The token is in every path, and in no cookie: browsers send cookies of a host to all of its ports, so that other servers
on this machine would get it. A request that is made to another host name than this machine's own comes from a page that
has had its name point here. Answers say that no page of another origin may read them, and that the page runs no script
but its own.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from viewlet.errors import DataError, StateError, ViewletError
from viewlet.forks import bind_to_process
from viewlet.ui.figures import Figures, describe, picture
from viewlet.ui.listings import GoneError, Listings
from viewlet.ui.messages import Messages
from viewlet.ui.queries import Queries
from viewlet.ui.subject import Source
from viewlet.visible import logger, one_line

ADDRESS = "127.0.0.1"
OWN_NAMES = frozenset({ADDRESS, "localhost"})
MOST_BYTES = 1024**2
"""Of the body of a request."""
SECONDS_OF_SILENCE = 60
"""After which a connection is closed."""
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Parameters = dict[str, str]
Record = dict[str, Any]


class UserInterface:
    """A page that is being served: `url` opens it, until `close`."""

    def __init__(self, source: Source, port: int = 0) -> None:
        self._token = secrets.token_urlsafe(32)
        self.pages = Pages(source)
        try:
            self._server = _Server((ADDRESS, port), self._token, self.pages)
        except (OSError, OverflowError, TypeError) as error:
            raise StateError(f"cannot serve a page at port {port!r}: {error}; port=0 takes a free one") from error
        bind_to_process(self)
        self.pages.messages.start()
        self._thread = threading.Thread(target=self._server.serve_forever, name="viewlet-ui", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page; whoever has it can read the database."""
        return f"http://{ADDRESS}:{self._server.server_port}/{self._token}/"

    def close(self) -> None:
        """Ends the server; closing twice is harmless."""
        self.pages.messages.stop()
        self.pages.queries.cancel()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def leave_in_fork(self) -> None:
        """A fork has no thread that serves, and gives the port back."""
        self._server.socket.close()

    def __enter__(self) -> UserInterface:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<viewlet.ui at {ADDRESS}:{self._server.server_port}>"


class Pages:
    """What the server answers, by the names of its pages."""

    def __init__(self, source: Source) -> None:
        self.source, self.figures = source, Figures(source)
        self._listings = Listings()
        self.messages, self.queries = Messages(), Queries()
        root = files("viewlet.ui") / "static"
        self.files = {each.name: each.read_bytes() for each in root.iterdir() if each.name.endswith(tuple(TYPES))}
        self.read: dict[str, Callable[[Parameters], Record]] = {
            "state": self._state,
            "relation": lambda asked: describe(source().session, asked["name"]),
            "listing": lambda asked: self._listings.of(source().session, asked["name"]),
            "rows": lambda asked: self._listings.page(*(int(asked[each]) for each in ("listing", "first", "most"))),
            "messages": lambda asked: {"messages": self.messages.last()},
        }
        self.done: dict[str, Callable[[Parameters], Record]] = {"query": self._query, "cancel": self._cancel}

    def picture(self, asked: Parameters) -> str:
        return picture(self.source().session, asked["name"])

    def _state(self, asked: Parameters) -> Record:
        state = self.figures.state(self.messages.count)
        if asked.get("since") == str(state["number"]):
            return {"number": state["number"], "messages": state["messages"]}
        return state

    def _query(self, asked: Parameters) -> Record:
        return self._listings.add(self.queries.answer(self.source(), asked["sql"]))

    def _cancel(self, asked: Parameters) -> Record:
        self.queries.cancel()
        return {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, address: tuple[str, int], token: str, pages: Pages) -> None:
        super().__init__(address, _Handler)
        self.token, self.pages = token.encode(), pages

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has closed its connection is no news."""


class _RequestError(Exception):
    def __init__(self, status: HTTPStatus, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(why)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = SECONDS_OF_SILENCE

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self.close_connection = True  # a body that was refused is not taken for the next request
        self._answer(self._post)

    def _refuse_method(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"GET and POST only", "text/plain")

    do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method  # noqa: N815

    def _answer(self, answer: Callable[[str, Parameters], None]) -> None:
        try:
            answer(*self._checked())
        except _RequestError as error:
            self.close_connection = True
            self._send(error.status, error.why.encode(), "text/plain")
        except GoneError:
            self._send_json({"error": "these rows are kept no longer"}, HTTPStatus.GONE)
        except ViewletError as error:
            self._send_json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except (KeyError, ValueError) as error:
            self._send_json({"error": one_line(f"a parameter is missing or wrong: {error}")}, HTTPStatus.BAD_REQUEST)
        except OSError:
            self.close_connection = True
        except Exception:
            logger.exception("the page of the database failed")
            self._send_json({"error": "an error of Viewlet; the log has it"}, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _checked(self) -> tuple[str, Parameters]:
        """The page that is asked for and its parameters, if the request may have an answer."""
        name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        url = urlsplit(self.path)
        token, _, page = url.path.removeprefix("/").partition("/")
        if name not in OWN_NAMES or len(self.headers.get_all("Host", [])) != 1:
            raise _RequestError(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 and localhost")
        if not hmac.compare_digest(token.encode(errors="replace"), self.server.token):
            raise _RequestError(HTTPStatus.FORBIDDEN, "the address lacks its token: open the one that Viewlet printed")
        asked = parse_qs(url.query, keep_blank_values=True, strict_parsing=bool(url.query), errors="strict")
        return page, {name: texts[-1] for name, texts in asked.items()}

    def _get(self, page: str, asked: Parameters) -> None:
        pages, file = self.server.pages, page or "index.html"
        folder, _, name = page.partition("/")
        if file in pages.files:
            self._send(HTTPStatus.OK, pages.files[file], TYPES[file[file.rindex(".") :]])
        elif page == "api/picture":
            self._send(HTTPStatus.OK, pages.picture(asked).encode(), "image/svg+xml", PICTURE_POLICY)
        elif folder == "api" and name in pages.read:
            self._send_json(pages.read[name](asked))
        else:
            raise _RequestError(HTTPStatus.NOT_FOUND, "there is no such page")

    def _post(self, page: str, asked: Parameters) -> None:
        folder, _, name = page.partition("/")
        if folder != "api" or name not in self.server.pages.done:
            raise _RequestError(HTTPStatus.NOT_FOUND, "there is no such page")
        if self.headers.get_content_type() != "application/json":
            raise _RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is JSON")
        if self.headers.get("Origin", f"http://{self.headers['Host']}") != f"http://{self.headers['Host']}":
            raise _RequestError(HTTPStatus.FORBIDDEN, "this page takes requests of its own only")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _RequestError(HTTPStatus.LENGTH_REQUIRED, "the length of the body is missing")
        if int(length[:20]) > MOST_BYTES:
            raise _RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has at most {MOST_BYTES} bytes")
        try:
            given = json.loads(self.rfile.read(int(length)))
        except RecursionError:
            given = None
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            raise DataError("the body is a JSON object of texts")
        self._send_json(self.server.pages.done[name](given))

    def _send_json(self, answer: Record, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, json.dumps(answer, default=str).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, type: str, policy: str = POLICY) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Content-Type", f"{type}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses: without the page that it would make of the request."""
        self.close_connection = True
        self._send(HTTPStatus(code), b"this is no request that is answered here", "text/plain")

    def version_string(self) -> str:
        return "Viewlet"

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are not logged: their paths have the token in them."""
