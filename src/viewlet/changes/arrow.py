"""Arrow columns to internal values and back, without a Python object per date or decimal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from viewlet.changes.values import to_python
from viewlet.types import MAX_DECIMAL_DIGITS, Column, Datum, Kind, Row, SqlType

MULTIPLICITY = "_multiplicity"


def arrow_type(type: SqlType) -> Any:
    """The Arrow type of a column; decimals are as wide as can be, since a sum outgrows its summands."""
    import pyarrow as pa

    match type.kind:
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.SMALLINT:
            return pa.int16()
        case Kind.INTEGER:
            return pa.int32()
        case Kind.BIGINT:
            return pa.int64()
        case Kind.REAL:
            return pa.float32()
        case Kind.DOUBLE:
            return pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(MAX_DECIMAL_DIGITS, type.scale)
        case Kind.VARCHAR:
            return pa.string()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case Kind.ARRAY:
            return pa.list_(pa.float64(), type.precision)
        case Kind.COFACTOR:
            numbers = pa.list_(pa.float64())
            return pa.struct(
                {"variables": pa.list_(pa.string()), "count": pa.int64(), "sums": numbers, "matrix": pa.list_(numbers)}
            )
        case Kind.NULL:
            return pa.null()


def type_of_arrow(type: Any) -> SqlType | None:
    """The type that holds all values of an Arrow type; None if there is none."""
    import pyarrow.types as pat

    from viewlet import types

    if pat.is_decimal(type):
        is_sum = type.precision == MAX_DECIMAL_DIGITS and type.scale == 0  # the sum of integers, as DuckDB gives it
        return types.BIGINT if is_sum else types.decimal(type.precision, type.scale)
    if pat.is_timestamp(type):
        return types.TIMESTAMP if type.tz is None else None
    known = (
        (types.BOOLEAN, (pat.is_boolean,)),
        (types.SMALLINT, (pat.is_int8, pat.is_int16, pat.is_uint8)),
        (types.INTEGER, (pat.is_int32, pat.is_uint16, pat.is_null)),
        (types.BIGINT, (pat.is_int64, pat.is_uint32, pat.is_uint64)),
        (types.REAL, (pat.is_float32,)),
        (types.DOUBLE, (pat.is_float64,)),
        (types.VARCHAR, (pat.is_string, pat.is_large_string, pat.is_string_view)),
        (types.DATE, (pat.is_date,)),
    )
    return next((found for found, tests in known if any(test(type) for test in tests)), None)


def rows_to_arrow(columns: Sequence[Column], rows: Iterable[tuple[Row, int]], with_multiplicity: bool = False) -> Any:
    """A pyarrow Table of the rows, each as often as its multiplicity says, or once with a `_multiplicity` column."""
    import pyarrow as pa

    weighted = list(rows)
    chosen = [row for row, weight in weighted for _ in range(1 if with_multiplicity else weight)]
    by_column: Sequence[Sequence[Datum]] = list(zip(*chosen, strict=True)) or [()] * len(columns)
    arrays = [_arrow_array(values, column.type) for values, column in zip(by_column, columns, strict=True)]
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    if with_multiplicity:
        arrays.append(pa.array([weight for _, weight in weighted], pa.int64()))
        fields.append(pa.field(MULTIPLICITY, pa.int64(), nullable=False))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _arrow_array(values: Sequence[Datum], type: SqlType) -> Any:
    import pyarrow as pa

    target = arrow_type(type)
    match type.kind:
        case Kind.DECIMAL:
            words = b"".join(int(value or 0).to_bytes(16, "little", signed=True) for value in values)
            valid = (
                pa.array([value is not None for value in values], pa.bool_()).buffers()[1] if None in values else None
            )
            return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(words)])
        case Kind.DATE:
            return pa.array(values, pa.int32()).cast(target)
        case Kind.TIMESTAMP:
            return pa.array(values, pa.int64()).cast(target)
        case Kind.COFACTOR:
            return pa.array([to_python(type)(value) for value in values], target)
        case _:
            return pa.array(values, target)


def sorted_rows(rows: Mapping[Row, int]) -> list[tuple[Row, int]]:
    """Sorts rows by all columns, NULLs last: an order that does not depend on the order of changes."""
    return sorted(rows.items(), key=lambda item: [(value is None, 0 if value is None else value) for value in item[0]])


def added_up(parts: Sequence[Any]) -> Any:
    """Tables of rows with multiplicities in the last column as one without negative ones.

    >>> import pyarrow as pa
    >>> part = pa.table({"a": ["x", "y"], MULTIPLICITY: [1, 2]})
    >>> added_up([part, pa.table({"a": ["x", "y"], MULTIPLICITY: [2, -2]})]).to_pydict()
    {'a': ['x'], '_multiplicity': [3]}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.concat_tables(parts)
    if not (whole.column(whole.num_columns - 1).to_numpy() < 0).any():
        return whole
    names = [str(i) for i in range(whole.num_columns - 1)]
    total = whole.rename_columns([*names, "n"]).group_by(names).aggregate([("n", "sum")])
    total = total.select([*names, "n_sum"]).rename_columns(whole.column_names)
    return total.filter(pc.not_equal(total.column(total.num_columns - 1), 0))


def one_piece(column: Any) -> Any:
    """An Arrow array that may be in chunks as one."""
    if not hasattr(column, "num_chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    import pyarrow as pa

    return pa.concat_arrays(column.chunks)


def fits_length(column: Column, texts: Any) -> bool:
    """All strings of an Arrow column fit VARCHAR(n), first by their bytes: there are at least as many as characters."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.length is None or column.type.kind is not Kind.VARCHAR:
        return True
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        texts = texts.cast(pa.string())
    longest = (pc.max(measure(texts)).as_py() for measure in (pc.binary_length, pc.utf8_length))
    return any(length is None or length <= column.length for length in longest)
