"""Metrics for Prometheus and OpenTelemetry, and the log as JSON."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import viewlet
from viewlet import metrics
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.errors import StateError

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)')


@pytest.fixture(params=["memory", "directory", "spark"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kinds = {"memory": viewlet.connect, "directory": lambda: viewlet.connect(tmp_path / "db")}
    made: Any = connect_inline(tmp_path, 2, sync=False) if request.param == "spark" else kinds[request.param]()
    made.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, g VARCHAR)")
    made.execute('CREATE MATERIALIZED VIEW "a ""b"" \\" AS SELECT g, COUNT(*) AS n FROM t GROUP BY g')
    made.insert("t", [(1, "a"), (2, "b")])
    made.insert("t", [(3, "b")])
    yield made
    made.close()


def read(text: str) -> dict[tuple[str, str], float]:
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match is not None, line
            found[match[1], match[2] or ""] = float(match[3])
    return found


def test_prometheus_reads_them(db: Any, request: pytest.FixtureRequest) -> None:
    with metrics.serve(db, port=0) as server:
        with urlopen(server.url, timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = read(answer.read().decode())
        with pytest.raises(HTTPError, match="404"):
            urlopen(server.url.replace("/metrics", "/other"), timeout=5)
        with pytest.raises(StateError, match="cannot be served"):
            metrics.serve(db, int(server.url.split(":")[2].split("/")[0]))
        view = 'view="a \\"b\\" \\\\"'
        assert found["viewlet_batches_total", ""] == db.epoch == 2
        assert found["viewlet_table_rows", 'table="t"'] == 3
        if isinstance(db, SparkConnection):
            assert found["viewlet_cluster_state_bytes", ""] > 0
            assert found["viewlet_cluster_last_batch_seconds", 'phase="driver"'] > 0
        else:
            assert found["viewlet_view_batches_total", view] == 2
            assert found["viewlet_view_changed_rows_total", view] == 3
        assert (("viewlet_log_size_bytes", "") in found) == (request.node.callspec.id != "memory")
        db.close()
        with pytest.raises(HTTPError, match="503"):
            urlopen(server.url, timeout=5)


def test_every_metric_has_a_name_a_help_and_a_type(db: Any) -> None:
    lines = metrics.prometheus_text(db).splitlines()
    names = [metric.prometheus_name for metric in metrics.METRICS]
    assert [line.split()[2] for line in lines if line.startswith("# HELP")] == names
    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == names
    assert {name for name, _ in read("\n".join(lines))} <= set(names)


def test_opentelemetry_observes_them() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    db = viewlet.connect()
    db.execute("CREATE TABLE t (k INTEGER); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
    db.insert("t", [(1,), (2,)])
    reader = InMemoryMetricReader()
    metrics.instrument(db, sdk.MeterProvider([reader]))

    def collected() -> dict[str, Any]:
        data = reader.get_metrics_data()
        every = [] if data is None else data.resource_metrics
        return {m.name: m for resource in every for scope in resource.scope_metrics for m in scope.metrics}

    found = collected()
    assert set(found) >= {"viewlet.batches", "viewlet.view.maintenance", "viewlet.table.rows"}
    (point,) = found["viewlet.view.changed_rows"].data.data_points
    assert (point.value, dict(point.attributes)) == (2, {"view": "v"})
    assert found["viewlet.view.maintenance"].unit == "s"
    db.close()


def test_the_log_is_lines_of_json(db: Any) -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    def fail(epoch: int, changes: object) -> None:
        raise RuntimeError("no \n disk")

    handler = Kept()
    handler.setFormatter(metrics.JsonLines())
    logger = logging.getLogger("viewlet")
    logger.addHandler(handler)
    try:
        name = db.views[0]
        db.view(name).subscribe(fail)
        db.insert("t", [(4, "b")])
    finally:
        logger.removeHandler(handler)
    (line,) = [json.loads(each) for each in lines if "subscriber" in each]
    assert (line["level"], line["epoch"], line["view"]) == ("ERROR", 3, name)
    assert "RuntimeError" in line["exception"]
    assert "\n" not in lines[-1]
