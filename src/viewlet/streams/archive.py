"""Parts that are no longer kept: Parquet files named by the start of their part; in memory without a folder.

The catalogue of parts has the checksum of every file, so that what is missing or damaged is an error. Files that it
does not know are those of earlier versions, and are read too.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Mapping
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

    def write(self, host: PartHost, relation: PartRelation, number: int) -> int | None:
        """Stores a part that is about to be deleted; returns the checksum of its file, if it has one.

        A part without rows has no file.
        """
        import pyarrow.parquet as pq

        part = relation.part(number)
        if not part.rows:
            return None
        rows = host.read(union_of(host, relation.columns, ((number, segment) for segment in part.segments)))
        if self._folder is None:
            self._held[relation.name, number] = rows
            return None
        data = io.BytesIO()
        pq.write_table(rows, data)
        place = self._place(self._folder, relation, number)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_suffix(".draft")
            draft.unlink(missing_ok=True)
            with open(draft, "xb") as file:
                file.write(data.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            draft.rename(place)
        except OSError as error:
            raise StateError(f"cannot archive a part of {relation.name!r}: {error}") from error
        return zlib.crc32(data.getbuffer())

    def read(self, relation: PartRelation, checksums: Mapping[int, int]) -> Any:
        """All rows of a relation that are in the archive, as Arrow; `checksums` are those of the files of parts."""
        import pyarrow as pa

        from viewlet.changes import arrow_type

        schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in relation.columns])
        if self._folder is None:
            found = [self._held[key] for key in sorted(self._held) if key[0] == relation.name]
        else:
            known = {self._place(self._folder, relation, number): each for number, each in checksums.items()}
            files = {*known, *self._checked(self._folder / encoded(relation.name, safe="")).glob("*.parquet")}
            found = [_read(file, known.get(file)) for file in sorted(files)]
        return pa.concat_tables([schema.empty_table(), *(rows.cast(schema) for rows in found)])

    def _place(self, archive: Path, relation: PartRelation, number: int) -> Path:
        start = datetime(1970, 1, 1) + timedelta(microseconds=start_of(number, relation.length))
        return self._checked(archive / encoded(relation.name, safe="")) / f"{start:%Y-%m-%dT%H-%M-%S}.parquet"

    def _checked(self, folder: Path) -> Path:
        for each in (folder, folder.parent):
            if each.is_symlink():
                raise StateError(f"{each} is a symbolic link; keep the archive in the directory itself")
        return folder


def _read(file: Path, checksum: int | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    remedy = "restore it from a copy"
    try:
        if file.is_symlink():
            raise StateError(f"{file} is a symbolic link; {remedy}")
        data = file.read_bytes()
        if checksum is not None and zlib.crc32(data) != checksum:
            raise StateError(f"{file} is damaged: its checksum does not fit; {remedy}")
        return pq.read_table(pa.BufferReader(data))
    except FileNotFoundError as error:
        raise StateError(f"{file} is missing; {remedy}") from error
    except (OSError, pa.ArrowException) as error:
        raise StateError(f"{file} cannot be read: {error}; {remedy}") from error
