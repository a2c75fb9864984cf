"""`%load_ext viewlet` in IPython and Jupyter: SQL in a line or in a cell.

    %%viewlet
    SELECT * FROM spend

The statements are carried out by the connection that the variable `db` of the notebook holds, or by that of the
variable named after the magic (`%%viewlet orders_db`). Where there is none, `db` becomes an empty database in memory.
The answer is that of the last statement.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from viewlet.connection import Connection, connect
from viewlet.errors import DataError, InternalError, ViewletError
from viewlet.shell.output import Format, print_rows, texts
from viewlet.shell.script import split

MOST_ROWS = 40
"""Rows of an answer that are shown."""


def register(ipython: Any) -> None:
    """Adds the magic to an IPython shell."""

    def viewlet(line: str, cell: str | None = None) -> Answer | int | None:
        """Carries out SQL: of the cell, or else of the line."""
        name, sql = ("", line) if cell is None else (line.strip(), cell)
        return run(ipython.user_ns, name, sql)

    ipython.register_magic_function(viewlet, "line_cell", "viewlet")


def run(variables: dict[str, Any], name: str, sql: str) -> Answer | int | None:
    """The answer of the last statement; an error is shown with its line of the cell, and without a traceback."""
    answer = None
    try:
        db = _connection(variables, name)
        for statement in split(sql):
            with statement.placing_errors():
                answer = db.execute(statement.text)
    except ViewletError as error:
        if not isinstance(error, InternalError):
            shown = f"error: {error}".splitlines()
            setattr(error, "_render_traceback_", lambda: shown)  # noqa: B010 - what IPython asks an exception for
        raise
    return Answer(answer) if hasattr(answer, "schema") else answer


def _connection(variables: dict[str, Any], name: str) -> Connection:
    if not name and "db" not in variables:
        variables["db"] = connect()
    found = variables.get(name or "db")
    if not isinstance(found, Connection):
        raise DataError(f"{name or 'db'} is no connection of viewlet.connect(): write %%viewlet and the name of one")
    return found


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """Rows that show themselves in a notebook; pandas, Polars and pyarrow read them as an Arrow stream."""

    table: Any

    def to_arrow(self) -> Any:
        """The rows as a pyarrow Table."""
        return self.table

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        import io
        from contextlib import redirect_stdout

        with redirect_stdout(io.StringIO()) as drawn:
            print_rows(self.table, Format.TABLE, MOST_ROWS)
        return drawn.getvalue().strip("\n")

    def _repr_html_(self) -> str:
        names, columns = texts(self.table.slice(0, MOST_ROWS))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = [
            f"<tr>{''.join(f'<td>{html.escape(each)}</td>' for each in row)}</tr>" for row in zip(*columns, strict=True)
        ]
        more = f", first {len(rows)} shown" if len(rows) < len(self) else ""
        caption = f"<caption>{len(self):,} row{'' if len(self) == 1 else 's'}{more}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
