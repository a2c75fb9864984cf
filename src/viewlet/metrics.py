"""What a connection does, for Prometheus and OpenTelemetry, and its log as lines of JSON.

    from viewlet import metrics

    server = metrics.serve(db, port=9464)       a page that Prometheus reads: server.url, server.close()
    metrics.instrument(db)                      instruments of the OpenTelemetry meter (pip install 'viewlet[metrics]')
    handler.setFormatter(metrics.JsonLines())   a line of the log is an object, with the epoch where there is one

The figures are those of `db.stats()`, read when somebody asks for them: a batch pays nothing for being watched.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from viewlet.errors import MissingExtraError, StateError, ViewletError

if TYPE_CHECKING:
    from viewlet.connection import Connection

Labels = Mapping[str, str]
TOGETHER = 0.1
"""Seconds in which instruments are taken to be asked by one collection."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a connection; one that `counts` only grows while the process lives."""

    name: str
    help: str
    unit: str
    counts: bool
    samples: Callable[[Mapping[str, Any]], Iterator[tuple[Labels, float]]]
    """Its values with what they are of, among the statistics of a connection."""

    @property
    def prometheus_name(self) -> str:
        """The name with the unit and the kind at its end, as Prometheus wants it."""
        unit = "" if self.unit == "1" else f"_{_UNITS[self.unit]}"
        return f"viewlet_{self.name.replace('.', '_')}{unit}{'_total' if self.counts else ''}"


_UNITS = {"s": "seconds", "By": "bytes"}
Find = Callable[[Mapping[str, Any]], Any]


def _of_database(find: Find) -> Callable[[Mapping[str, Any]], Iterator[tuple[Labels, float]]]:
    def samples(stats: Mapping[str, Any]) -> Iterator[tuple[Labels, float]]:
        value = find(stats)
        if value is not None:
            yield {}, float(value)

    return samples


def _of_each(kind: str, find: Find) -> Callable[[Mapping[str, Any]], Iterator[tuple[Labels, float]]]:
    def samples(stats: Mapping[str, Any]) -> Iterator[tuple[Labels, float]]:
        for name, known in stats[f"{kind}s"].items():
            value = find(known)
            if isinstance(value, Mapping):
                yield from (({kind: name, "source": source}, float(each)) for source, each in value.items())
            elif value is not None:
                yield {kind: name}, float(value)

    return samples


def _last_seconds(known: Mapping[str, Any]) -> float | None:
    last = known.get("last_batch")
    return None if not last else sum(last["seconds"].values())


def _bytes(known: Mapping[str, Any]) -> float | None:
    sizes = known.get("bytes")
    return sum(sizes.values()) if isinstance(sizes, Mapping) else sizes


def _place(stats: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is known of the directory, or of the checkpoint of a cluster."""
    return stats.get("durability") or stats.get("checkpoint") or {}


def _phases(stats: Mapping[str, Any]) -> Iterator[tuple[Labels, float]]:
    """The phases of the last batch on a cluster."""
    for batch in stats.get("batches", ())[-1:]:
        yield from (({"phase": phase}, float(seconds)) for phase, seconds in batch["seconds"].items())


def _of_last_batch(name: str) -> Find:
    return lambda stats: next((batch[name] for batch in stats.get("batches", ())[-1:]), None)


METRICS = (
    Metric("batches", "Batches that have changed something since the database was made.", "1", True,
           _of_database(lambda stats: stats["epoch"])),
    Metric("log.size", "The log that is replayed when the directory is opened next.", "By", False,
           _of_database(lambda stats: _place(stats).get("log_bytes"))),
    Metric("snapshot.size", "The last snapshot.", "By", False,
           _of_database(lambda stats: _place(stats).get("snapshot_bytes"))),
    Metric("cluster.last_batch", "Time that a phase of the last batch took on a cluster.", "s", False, _phases),
    Metric("cluster.moved", "What the last batch moved between partitions.", "By", False,
           _of_database(_of_last_batch("moved_bytes"))),
    Metric("cluster.state", "What all partitions hold.", "By", False, _of_database(_of_last_batch("state_bytes"))),
    Metric("table.rows", "Rows that a table keeps.", "1", False,
           _of_each("table", lambda known: known.get("rows"))),
    Metric("view.rows", "Rows of a view.", "1", False,
           _of_each("view", lambda known: known.get("rows"))),
    Metric("view.size", "Memory of what a compiled view stores.", "By", False, _of_each("view", _bytes)),
    Metric("view.batches", "Batches that concerned a view.", "1", True,
           _of_each("view", lambda known: known.get("batches"))),
    Metric("view.changed_rows", "Changed rows that reached a view.", "1", True,
           _of_each("view", lambda known: known.get("tuples"))),
    Metric("view.maintenance", "Time spent on keeping a view fresh, by the table or view that changed.", "s", True,
           _of_each("view", lambda known: known.get("seconds"))),
    Metric("view.last_batch", "Time that the last batch took in a view.", "s", False, _of_each("view", _last_seconds)),
    Metric("view.compiled", "Whether a view runs as generated code.", "1", False,
           _of_each("view", lambda known: known.get("engine") == "compiled")),
    Metric("view.compilation", "Time that compiling a view took.", "s", False,
           _of_each("view", lambda known: known.get("compile_seconds"))),
    Metric("view.subscribers", "Subscribers to the changes of a view.", "1", False,
           _of_each("view", lambda known: known.get("subscribers"))),
)  # fmt: skip


# -- Prometheus -------------------------------------------------------------------------------------------------------


def prometheus_text(db: Connection) -> str:
    """The metrics of a connection in Prometheus' text format."""
    stats = db.stats()
    lines = []
    for metric in METRICS:
        name = metric.prometheus_name
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {'counter' if metric.counts else 'gauge'}"]
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in metric.samples(stats)]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


class MetricsServer:
    """Serves the metrics of a connection over HTTP until it is closed, or to the end of a `with` block."""

    def __init__(self, db: Connection, port: int, host: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] != "/metrics":
                    self.send_error(404, "the metrics are at /metrics")
                    return
                try:
                    body = prometheus_text(db).encode()
                except ViewletError as error:  # the connection is closed
                    self.send_error(503, str(error))
                    return
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing: a scrape is no event."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise StateError(f"metrics cannot be served at {host}:{port}: {error.strerror}") from error
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}/metrics"
        threading.Thread(target=self._server.serve_forever, name="viewlet metrics", daemon=True).start()

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(db: Connection, port: int = 9464, host: str = "127.0.0.1") -> MetricsServer:
    """Lets Prometheus read the metrics of a connection at `/metrics` of a port; 0 takes a free one."""
    return MetricsServer(db, port, host)


# -- OpenTelemetry ----------------------------------------------------------------------------------------------------


def instrument(db: Connection, meter_provider: Any = None) -> None:
    """Registers observable instruments for a connection, which stay silent once that is closed.

    They belong to the meter `viewlet` of the provider, or of the global one.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise MissingExtraError("instrument() needs OpenTelemetry: pip install 'viewlet[metrics]'") from error
    meter = metrics.get_meter("viewlet", meter_provider=meter_provider)
    reader = _Reader(db)
    for metric in METRICS:

        def observe(_: Any, metric: Metric = metric) -> list[Any]:
            stats = reader.stats()
            found = () if stats is None else metric.samples(stats)
            return [metrics.Observation(value, dict(labels)) for labels, value in found]

        make = meter.create_observable_counter if metric.counts else meter.create_observable_gauge
        make(f"viewlet.{metric.name}", [observe], metric.unit, metric.help)


class _Reader:
    """The statistics of a connection, read once for all instruments of a collection."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._stats: Mapping[str, Any] | None = None
        self._until = 0.0

    def stats(self) -> Mapping[str, Any] | None:
        if time.monotonic() >= self._until:
            try:
                self._stats = self._db.stats()
            except ViewletError:  # the connection is closed
                self._stats = None
            self._until = time.monotonic() + TOGETHER
        return self._stats


# -- the log ----------------------------------------------------------------------------------------------------------


class JsonLines(logging.Formatter):
    """A record of the log as one line of JSON: time, level, logger, message, and what is known of its batch."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("epoch", "view"):
            if hasattr(record, name):
                line[name] = getattr(record, name)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
