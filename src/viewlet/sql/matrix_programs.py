"""The table function `matrix_program('text', 'output', table, ...)`, with a table for each input in their order."""

from __future__ import annotations

from dataclasses import replace

from viewlet.algebra.matrix_program import MatrixInput, MatrixProgram
from viewlet.errors import ViewletError
from viewlet.sql.table_functions import BoundCall, TableCall
from viewlet.types import BIGINT, DOUBLE, Column, Kind, SqlType, Table

MOST_PLACES = 100_000
"""The most places of a dimension that is a number: all of them are there, whatever the rows are."""


def bind_matrix_program(call: TableCall) -> BoundCall:
    """Reads the program, and finds the tables of its inputs and the types of its keys."""
    from viewlet.linalg import program
    from viewlet.linalg.expression import shape

    text, output = call.string(0, "the text of a program"), call.string(1, "the name of an output")
    try:
        declared = program(text)
    except ViewletError as wrong:
        raise call.error(str(wrong), 0) from wrong
    if output not in declared.outputs:
        raise call.error(f"the program has no output {output!r}, only {', '.join(declared.outputs)}", 1)
    if len(call.arguments) != 2 + len(declared.inputs):
        names = ", ".join(each.name for each in declared.inputs)
        raise call.error(f"{call.name} needs a table for each of the inputs {names}", len(call.arguments) - 1)
    keys: dict[str, SqlType] = {}
    inputs = []
    for number, each in enumerate(declared.inputs, 2):
        rows, columns = (_dimension(call, side, number) for side in shape(each))
        inputs.append(replace(_input(call, number, each.name, rows, columns, keys), is_dynamic=each.dynamic))
    rows, columns = (_dimension(call, side, 1) for side in shape(declared.outputs[output]))
    if missing := [side for side in (rows, columns) if isinstance(side, str) and side not in keys]:
        raise call.error(f"no table has keys for dimension {missing[0]} of {output}", 1)
    definition = MatrixProgram(text, output, rows, columns, tuple(inputs))
    shown = (
        Column("row", _key_type(rows, keys)),
        Column("column", _key_type(columns, keys)),
        Column("value", DOUBLE.with_nullable(False)),
    )
    return BoundCall(definition, shown, frozenset(each.table for each in inputs))


def _input(
    call: TableCall, number: int, name: str, rows: str | int, columns: str | int, keys: dict[str, SqlType]
) -> MatrixInput:
    table = call.table(number)
    is_vector = columns == 1 and len(table.columns) == 2
    if len(table.columns) != 3 and not is_vector:
        vector = ", or two for a vector (row, value)" if columns == 1 else ""
        raise call.error(f"{table.name} is no matrix: it needs three columns (row, column, value){vector}", number)
    sides = (rows,) if is_vector else (rows, columns)
    for side, column in zip(sides, table.columns, strict=False):
        _check_key(call, number, side, column, keys, table)
    value = table.columns[-1].type
    if not value.is_numeric:
        raise call.error(f"column {table.columns[-1].name} of {table.name} is {value}, not a number", number)
    scale = value.scale if value.kind is Kind.DECIMAL else 0
    return MatrixInput(name, table.name, rows, columns, scale=scale, is_vector=is_vector)


def _check_key(
    call: TableCall, number: int, side: str | int, column: Column, keys: dict[str, SqlType], table: Table
) -> None:
    if isinstance(side, int):
        if not column.type.is_integer:
            raise call.error(f"column {column.name} of {table.name} has the places 0 to {side - 1}: integers", number)
        return
    known = keys.setdefault(side, column.type.with_nullable(False))
    if not known.same_representation(column.type):
        raise call.error(f"the keys of dimension {side} are {known}, and those of {table.name} {column.type}", number)


def _dimension(call: TableCall, side: object, number: int) -> str | int:
    terms = getattr(side, "terms", ())
    if not terms:
        return 0
    ((names, factor), *others) = terms
    if not others and not names:
        if factor > MOST_PLACES:
            raise call.error(
                f"a side of {factor} places is too large: at most {MOST_PLACES} are kept in a database", number
            )
        return int(factor)
    if not others and len(names) == 1 and factor == 1:
        return str(names[0])
    raise call.error(f"a side of {side} has no keys of its own: only plain dimensions and numbers do", number)


def _key_type(side: str | int, keys: dict[str, SqlType]) -> SqlType:
    return keys[side] if isinstance(side, str) else BIGINT.with_nullable(False)
