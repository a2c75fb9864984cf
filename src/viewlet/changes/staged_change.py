"""A change of a partitioned stream whose rows are in files already, a folder for each part, and are not read here.

folder/viewlet_part=23667840/*.parquet
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.changes import to_changes
from viewlet.changes.change import Change, Changes, ColumnChange, RowChange
from viewlet.errors import DataError
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.changes.word_codec import Codes

PART_COLUMN = "viewlet_part"
"""The column that tells parts apart where rows of many are stored together."""


class StagedChange(Change):
    """Rows to insert into a stream, in a folder; `total` is their number.

    A journal has the name of the folder alone: whoever reads it back says where such folders are (`under`).
    """

    __slots__ = ("folder", "table", "total")

    def __init__(self, table: Table, folder: str, total: int | None = None) -> None:
        self.table = table
        self.folder = folder
        self.total = sum(rows for _, _, rows in self.shares()) if total is None else total

    @property
    def name(self) -> str:
        return Path(self.folder).name

    def under(self, place: Path) -> StagedChange:
        """The same with its folder in another one."""
        return StagedChange(self.table, str(place / self.name), self.total)

    def shares(self) -> Iterator[tuple[int, Path, int]]:
        """Parts in order, with their folder and their number of rows."""
        import pyarrow.parquet as pq

        found = {each.name.partition("=")[2]: each for each in Path(self.folder).glob(f"{PART_COLUMN}=*")}
        if "__HIVE_DEFAULT_PARTITION__" in found:
            time = self.table.parts.time if self.table.parts is not None else ""
            raise DataError(f"stream {self.table.name!r}: the time {time!r} of a row is NULL: rows need a time")
        for number in sorted(map(int, found)):
            place = found[str(number)]
            yield number, place, sum(pq.read_metadata(file).num_rows for file in place.glob("*.parquet"))

    def latest(self, place: Path) -> int:
        """The latest time of a row in the folder of a part, in microseconds, from the footers of its files."""
        import pyarrow.parquet as pq

        assert self.table.parts is not None
        found: list[Any] = []
        for file in place.glob("*.parquet"):
            metadata = pq.read_metadata(file)
            at = metadata.schema.names.index(self.table.parts.time)
            groups = [metadata.row_group(group).column(at).statistics for group in range(metadata.num_row_groups)]
            found += [group.max_raw for group in groups if group is not None and group.has_min_max]
        return int(max(found))

    def read(self, place: Path | None = None) -> Any:
        """The rows, or those of one part, read into this process."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        places = [each for _, each, _ in self.shares()] if place is None else [place]
        names = list(self.table.column_names)
        files = [file for each in places for file in sorted(each.glob("*.parquet"))]
        return pa.concat_tables([pq.ParquetFile(file).read(names) for file in files])

    def rows(self) -> Changes:
        return to_changes(self.table, self.read())

    def columns(self, table: Table, positions: Collection[int], dictionary: Codes) -> ColumnChange:
        return RowChange(self.rows()).columns(table, positions, dictionary)

    def negated(self) -> Change:
        return RowChange(self.rows()).negated()

    def __len__(self) -> int:
        return self.total
