"""A view of a checkpoint as other jobs read it, without opening the database."""

from __future__ import annotations

from viewlet.changes import did_you_mean
from viewlet.connection.database import Database
from viewlet.connection.journal import open_journal
from viewlet.errors import SchemaError, StateError, UnsupportedError
from viewlet.hosts.catalogue import Catalogue
from viewlet.hosts.reading import ReadingHost
from viewlet.hosts.spark import SETUP
from viewlet.runtime.durable.read_only import ATTEMPTS, open_for_reading
from viewlet.spark.run.engine import Engine
from viewlet.spark.run.exchange.wire import table_bytes
from viewlet.spark.run.execution.cluster import InlineCluster
from viewlet.spark.run.execution.scan_task import read_type
from viewlet.spark.run.load.sources import has_spark_type
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.views.stored_rows import PackedRows, StoredRows, scanned
from viewlet.types import Column


def open_view(location: str, name: str) -> StoredRows:
    """The rows of a view or kept table in the last epoch of a checkpoint."""
    for attempt in range(1, ATTEMPTS + 1):
        store = Checkpoint(location, store=open_for_reading(location))
        try:
            return _rows(store, name)
        except (StateError, OSError):
            if attempt == ATTEMPTS or store.position() == open_for_reading(location).position():
                raise  # otherwise a commit has removed what was about to be read
    raise AssertionError("unreachable")


def _rows(store: Checkpoint, name: str, unit: str | None = None) -> StoredRows:
    """The rows of a view, which may have a `unit` that was declared for another view."""
    partitions = store.setup(SETUP)
    if partitions is None:
        raise StateError(f"{store.directory} holds no database yet; check the path")
    wanted = frozenset({name, name.lower()})
    engine = Engine(InlineCluster(), store, partitions)
    host = ReadingHost(engine, Catalogue(layered=True), wanted=wanted, unit=unit)
    database = Database(host)
    open_journal(database, store)
    found = host.catalogue.find(name)
    if found is None:
        known = host.catalogue.schemas()
        raise SchemaError(f"there is no view {name!r} in {store.directory}" + did_you_mean(name, known))
    if (shared := host.units.get(found, found)) not in (found, unit):
        return _rows(Checkpoint(store.directory, store=open_for_reading(store.directory)), name, shared)
    scan = host.scan(found)
    if scan is not None:
        return scanned(scan)
    columns = tuple(Column(each.name, read_type(each.type)) for each in database.columns(found))
    for column in columns:
        if not has_spark_type(column.type):
            raise UnsupportedError(
                f"column {column.name!r} of {found!r} in Spark", "read it with the handle of the view"
            )
    return PackedRows(columns, table_bytes(database.arrow(found)))
