"""Matrix programs over tables: entries (row, column, value) of tables are input matrices, and one output is the view.

    SELECT * FROM matrix_program('input A(n, n); C := A * A;', 'C', links)

The first two columns of a table are keys, of any type: the keys of a dimension are those that occur in the tables which
have it. Entries with the same keys add up, and entries with a NULL do not count. The view has the entries that are not
zero, by the keys of their row and column.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.query import Query


@dataclass(frozen=True, slots=True)
class MatrixInput:
    """An input matrix: the table of its entries, its dimensions, and the digits behind the point of its numbers.

    A dimension is a name, or the number of keys 0, 1, ... that it has. A vector's table has no column of column keys.
    """

    name: str
    table: str
    rows: str | int
    columns: str | int
    is_dynamic: bool = True
    scale: int = 0
    is_vector: bool = False
    query: Query | None = None
    """What the table is the rows of, where it is a view that is replaced by its query."""

    @property
    def sides(self) -> tuple[str | int, str | int]:
        """The dimensions of rows and of columns."""
        return self.rows, self.columns


@dataclass(frozen=True, slots=True)
class MatrixProgram:
    """The definition of such a view, which is also its plan."""

    text: str
    output: str
    rows: str | int
    columns: str | int
    inputs: tuple[MatrixInput, ...]
    strategy = "matrix-program"
