"""Rows for people and programs: as a drawn table, as CSV and as JSON.

A terminal gets no control characters that are in the data. A table that is too wide for it is drawn row by row, one
column under the other.
"""

from __future__ import annotations

import json
import sys
from enum import Enum
from typing import Any

from viewlet.errors import DataError
from viewlet.visible import one_line

READABLE_WIDTH = 16
"""Columns of texts that are longer are wrapped, if they keep so many characters."""


class Format(str, Enum):  # noqa: UP042 - typer shows the values of a str enum as choices
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def print_rows(result: Any, format: Format, most_rows: int | None = None) -> None:
    """Prints an Arrow table to standard output; of a drawn table not more than some rows."""
    match format:
        case Format.TABLE:
            _print_table(result, most_rows)
        case Format.CSV:
            _print_csv(result)
        case Format.JSON:
            names, columns = result.column_names, [values_of(column) for column in result.columns]
            rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
            print(json.dumps(rows, default=_to_json, indent=2))


def _print_table(result: Any, most_rows: int | None) -> None:
    from rich.cells import cell_len
    from rich.console import Console

    shown = result if most_rows is None else result.slice(0, most_rows)
    names, columns = texts(shown)
    widths = [max(map(cell_len, [name, *cells])) for name, cells in zip(names, columns, strict=True)]
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, sum(widths) + 3 * len(widths) + 1)
    if sum(min(width, READABLE_WIDTH) + 3 for width in widths) < console.width:
        _draw(result.schema, names, columns, console)
    else:
        _list(names, columns, console)
    if shown.num_rows < result.num_rows:
        console.print(f"{result.num_rows:,} rows, of which the first {shown.num_rows:,} are shown")


def texts(result: Any) -> tuple[list[str], list[list[str]]]:
    """The names of columns, and their values, as people may see them."""
    columns = [
        ["NULL" if value is None else one_line(str(value)) for value in values_of(each)] for each in result.columns
    ]
    return [one_line(field.name) for field in result.schema], columns


def _draw(schema: Any, names: list[str], columns: list[list[str]], console: Any) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name, field in zip(names, schema, strict=True):
        table.add_column(name, justify="right" if is_number(field.type) else "left", overflow="fold")
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    console.print(table)


def _list(names: list[str], columns: list[list[str]], console: Any) -> None:
    """Row by row, a line for each column."""
    from rich.cells import cell_len, set_cell_size

    width = max(map(cell_len, names))
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        console.print(f"-- row {number} " + "-" * width)
        for name, value in zip(names, row, strict=True):
            console.print(f"{set_cell_size(name, width)} | {value}", soft_wrap=True)


def _print_csv(result: Any) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = [values_of(column) for column in result.columns]
    if sys.stdout.isatty():
        columns = [[one_line(value) if isinstance(value, str) else value for value in column] for column in columns]
    writer.writerow([one_line(name) if sys.stdout.isatty() else name for name in result.column_names])
    writer.writerows(zip(*columns, strict=True))


def values_of(column: Any) -> list[Any]:
    """A column as Python values, or as text where Python has none: dates before the year 1 and after 9999."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        try:
            return list(column.cast(pa.string()).to_pylist())
        except pa.ArrowException as error:
            problem = str(error).strip().splitlines()[0]
            raise DataError(f"a column of the result has values that cannot be shown: {problem}") from error


def is_number(type: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(type) or kinds.is_floating(type) or kinds.is_decimal(type))


def _to_json(value: object) -> object:
    """Decimals as strings (a JSON number would be rounded by most readers), dates in ISO form."""
    return str(value)
