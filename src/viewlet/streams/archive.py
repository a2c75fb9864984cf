"""Parts that are no longer kept: Parquet files named by the start of their part; in memory without a folder."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote as encoded

from viewlet.errors import StateError
from viewlet.streams.catalogue import PartRelation
from viewlet.streams.definition import start_of
from viewlet.streams.host import PartHost
from viewlet.streams.render import union_of


class Archive:
    """Old parts. One is written again if a batch is repeated, with the same rows."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[tuple[str, int], Any] = {}

    def write(self, host: PartHost, relation: PartRelation, number: int) -> None:
        """Stores a part that is about to be deleted; one without rows has no file."""
        import pyarrow.parquet as pq

        part = relation.part(number)
        if not part.rows:
            return
        rows = host.read(union_of(host, relation.columns, ((number, segment) for segment in part.segments)))
        if self._folder is None:
            self._held[relation.name, number] = rows
            return
        start = datetime(1970, 1, 1) + timedelta(microseconds=start_of(number, relation.length))
        place = self._folder / encoded(relation.name, safe="") / f"{start:%Y-%m-%dT%H-%M-%S}.parquet"
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_suffix(".draft")
            pq.write_table(rows, draft)
            draft.rename(place)
        except OSError as error:
            raise StateError(f"cannot archive a part of {relation.name!r}: {error}") from error

    def read(self, relation: PartRelation) -> Any:
        """All rows of a relation that are in the archive, as Arrow."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from viewlet.changes import arrow_type

        schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in relation.columns])
        if self._folder is None:
            found = [self._held[key] for key in sorted(self._held) if key[0] == relation.name]
        else:
            files = sorted((self._folder / encoded(relation.name, safe="")).glob("*.parquet"))
            found = [pq.read_table(file) for file in files]
        return pa.concat_tables([schema.empty_table(), *(rows.cast(schema) for rows in found)])
