"""Arrow, pandas and Polars batches to columns of words, without a Python object per value.

The checks are those of the row path, one column at a time. If a column does not have the type of its table, or a check
fails, there is no result: the row path then converts the values, or finds the value to refuse and names it. Columns
that no view reads are checked and not converted; most checks follow from the Arrow type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.changes import CHANGE_TYPE, CHANGE_TYPES, MULTIPLICITY, ColumnChange
from viewlet.changes.arrow import fits_length, one_piece
from viewlet.changes.sources import checked_column, with_index
from viewlet.changes.values import DAYS, MICROSECONDS, integer_range
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.dictionary import StringDictionary
from viewlet.types import WORD_DIGITS, Column, Kind, SqlType, Table

Array = Any
_INT64 = (-(2**63), 2**63 - 1)


class _RowPathNeeded(Exception):  # noqa: N818 - never leaves this module
    """These columns have to be converted by the row path."""


def to_columns(
    table: Table,
    data: object,
    wanted: frozenset[int],
    dictionary: StringDictionary,
    sign: int,
    encoded: bool,
    partial: bool = False,
    net: bool = False,
    texts: frozenset[int] = frozenset(),
) -> ColumnChange | None:
    """The columns at the positions `wanted`, or None if the data has to go over rows.

    Columns of strings at the positions `texts` stay strings, whether their words are wanted or not. With `partial` the
    other columns may be missing. With `net`, where rows are inserted and deleted, equal rows are merged, and those that
    cancel out are left out.
    """
    try:
        batch = _arrow_columns(table, data)
        if batch is None:
            return None
        multiplicity = _multiplicity(batch, encoded, sign)
        words, held = _words(table, batch, wanted, texts, dictionary, partial)
    except _RowPathNeeded:
        return None
    change = ColumnChange(words, multiplicity, table, dictionary, held)
    if net and multiplicity.min() < 0 < multiplicity.max():
        return net_columns((change,))
    if multiplicity.all():
        return change
    kept = np.flatnonzero(multiplicity)
    return change.at(kept, multiplicity[kept])


def net_columns(parts: Sequence[ColumnChange]) -> ColumnChange:
    """Changes of one table with the same columns as one: equal rows are merged, and those that cancel out left out."""
    from viewlet.runtime.batches import net_rows, repeated_rows

    whole = parts[0] if len(parts) == 1 else _joined(parts)
    names = whole.table.column_names
    key = [whole.words[names.index(name)] for name in whole.table.primary_key]
    some = repeated_rows(key) if key else np.arange(len(whole))
    if len(some):
        part = whole.at(some, whole.multiplicity[some]) if key else whole
        kept, weights = net_rows(part.identities(), part.multiplicity)
        if len(kept) < len(some):
            multiplicity = whole.multiplicity.copy()
            multiplicity[some] = 0
            multiplicity[some[kept]] = weights
            rows = np.flatnonzero(multiplicity)
            whole = whole.at(rows, multiplicity[rows])
    whole.is_net = True
    return whole


def _joined(parts: Sequence[ColumnChange]) -> ColumnChange:
    first = parts[0]
    words = {i: np.concatenate([part.words[i] for part in parts]) for i in first.words}
    texts = {i: _one_type([part.texts[i] for part in parts]) for i in first.texts}
    multiplicity = np.concatenate([part.multiplicity for part in parts])
    return ColumnChange(words, multiplicity, first.table, first.dictionary, texts)


def _one_type(texts: Sequence[Any]) -> Any:
    import pyarrow as pa

    types = {text.type for text in texts}
    return pa.concat_arrays(texts if len(types) == 1 else [text.cast(pa.large_string()) for text in texts])


def _arrow_columns(target: Table, data: object) -> dict[str, Any] | None:
    """Name -> Arrow array, perhaps in chunks; None if the data are not columns to begin with."""
    package = type(data).__module__.partition(".")[0]
    is_pandas = package == "pandas" and type(data).__name__ == "DataFrame"
    is_arrow = package != "pandas" and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"))
    if not is_pandas and not is_arrow:
        return None
    import pyarrow as pa

    try:
        if is_pandas:
            table = _of_pandas(with_index(target, data))
        else:
            table = data if isinstance(data, pa.RecordBatch | pa.Table) else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    names = table.schema.names
    if not table.num_rows or len(set(names)) != len(names):
        return None
    return dict(zip(names, table.columns, strict=True))


def _of_pandas(frame: Any) -> Any:
    import pyarrow as pa

    if not all(isinstance(name, str) for name in frame.columns):
        raise TypeError("names of columns are strings")
    return pa.Table.from_pandas(frame, preserve_index=False)


def _multiplicity(batch: Mapping[str, Any], encoded: bool, sign: int) -> Array:
    present = [name for name in (MULTIPLICITY, CHANGE_TYPE) if name in batch]
    length = len(next(iter(batch.values())))
    if not present:
        return np.full(length, sign, np.int64)
    column = one_piece(batch[present[0]])
    if not encoded or len(present) > 1 or column.null_count:
        raise _RowPathNeeded
    if present[0] == MULTIPLICITY:
        return sign * _integers(column, _INT64)
    kinds = _text(column).dictionary_encode()
    signs = [CHANGE_TYPES.get(kind.lower(), 0) for kind in kinds.dictionary.to_pylist()]
    if 0 in signs:
        raise _RowPathNeeded
    return sign * np.array(signs, np.int64)[kinds.indices.to_numpy()]


def _words(
    table: Table,
    batch: Mapping[str, Any],
    wanted: frozenset[int],
    texts: frozenset[int],
    dictionary: StringDictionary,
    partial: bool,
) -> tuple[dict[int, Array], dict[int, Any]]:
    known = {*table.column_names, MULTIPLICITY, CHANGE_TYPE}
    needed = {table.column_names[i] for i in wanted} if partial else set(table.column_names)
    if not batch.keys() <= known or not needed <= batch.keys():
        raise _RowPathNeeded
    words: dict[int, Array] = {}
    strings: dict[int, Any] = {}
    for position, column in enumerate(table.columns):
        if column.name not in batch:
            continue
        given = batch[column.name]
        is_read = position in wanted or position in texts or column.name in table.non_negative
        is_limited = column.length is not None and column.type.kind is Kind.VARCHAR
        if is_limited:
            _check_text(given.type)
        if is_read or is_limited:
            given = checked_column(table, column.name, given)
        if is_limited and not fits_length(column, given):
            raise _RowPathNeeded
        if given.null_count and (not column.type.nullable or column.name in table.primary_key):
            raise _RowPathNeeded
        if not is_read:
            _check_unread(given, column.type)
            continue
        given = one_piece(given)
        if column.type.kind is Kind.VARCHAR:
            strings[position] = _text(given)
            continue
        array = _reader(column.type)(given, column.type)
        _check_sign(table, column, array, given)
        if position in wanted:
            words[position] = array
    for position in strings.keys() & wanted:  # last, so that a refused batch adds no strings
        words[position] = dictionary.encode_arrow(strings[position])
    return words, {position: strings[position] for position in strings.keys() & texts}


def _check_unread(given: Any, type: SqlType) -> None:
    """Refuses what the way over rows has to convert or to refuse, without converting anything."""
    import pyarrow as pa

    match type.kind:
        case Kind.VARCHAR:
            _check_text(given.type)
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            _check_integers(given.type)
            least, most = integer_range(type)
            bits = given.type.bit_width
            held = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(given.type) else (0, 2**bits)
            if held[0] < least or held[1] > most:
                _check_bounds(given, given.type, (least, most))
        case Kind.DECIMAL:
            if not pa.types.is_decimal128(given.type) or given.type.scale != type.scale:
                raise _RowPathNeeded
            if given.type.precision > type.precision:
                _read_decimals(one_piece(given), type)
        case Kind.DATE:
            _check_type(given.type, pa.date32())
            _check_bounds(given, pa.int32(), DAYS)
        case Kind.TIMESTAMP:
            _check_type(given.type, pa.timestamp("us"))
            _check_bounds(given, pa.int64(), MICROSECONDS)
        case Kind.BOOLEAN:
            _check_type(given.type, pa.bool_())
        case _:
            _read_doubles(one_piece(given), type)


def _check_type(given: Any, *known: Any) -> None:
    if given not in known:
        raise _RowPathNeeded


def _check_bounds(given: Any, integers: Any, bounds: tuple[int, int]) -> None:
    """All values, which are of such integers or as large as them, are within bounds."""
    for chunk in given.chunks if hasattr(given, "num_chunks") else (given,):
        values = _filled(chunk, integers)
        if len(values) and not bounds[0] <= values.min() <= values.max() <= bounds[1]:
            raise _RowPathNeeded


def _check_sign(table: Table, column: Column, array: Array, given: Any) -> None:
    if column.name in table.non_negative:
        negative = array < 0
        if given.null_count:
            negative &= _valid(given)
        if negative.any():
            raise _RowPathNeeded


def _reader(type: SqlType) -> Callable[[Any, SqlType], Array]:
    match type.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return _read_integers
        case Kind.DECIMAL:
            return _read_decimals
        case Kind.DATE:
            return _read_dates
        case Kind.TIMESTAMP:
            return _read_timestamps
        case Kind.BOOLEAN:
            return _read_booleans
        case Kind.DOUBLE | Kind.REAL:
            return _read_doubles
        case _:
            raise _RowPathNeeded


def _read_integers(column: Any, type: SqlType) -> Array:
    return _integers(column, integer_range(type))


def _integers(column: Any, bounds: tuple[int, int]) -> Array:
    _check_integers(column.type)
    filled = column.fill_null(0) if column.null_count else column
    return _with_nulls(filled.to_numpy(), column, bounds)


def _check_integers(given: Any) -> None:
    import pyarrow as pa

    if not pa.types.is_integer(given) or given == pa.uint64():
        raise _RowPathNeeded


def _read_dates(column: Any, type: SqlType) -> Array:
    import pyarrow as pa

    _check_type(column.type, pa.date32())
    return _with_nulls(_filled(column, pa.int32()), column, DAYS)


def _read_timestamps(column: Any, type: SqlType) -> Array:
    import pyarrow as pa

    _check_type(column.type, pa.timestamp("us"))
    return _with_nulls(_filled(column, pa.int64()), column, MICROSECONDS)


def _read_booleans(column: Any, type: SqlType) -> Array:
    import pyarrow as pa

    _check_type(column.type, pa.bool_())
    filled = column.fill_null(False) if column.null_count else column
    return _with_nulls(filled.to_numpy(zero_copy_only=False), column, (0, 1))


def _read_decimals(column: Any, type: SqlType) -> Array:
    """The low words of 128-bit integers whose high words only repeat the sign."""
    import pyarrow as pa

    given = column.type
    if not pa.types.is_decimal128(given) or given.scale != type.scale or type.precision > WORD_DIGITS:
        raise _RowPathNeeded
    pairs = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = pairs[0::2], pairs[1::2]
    if column.null_count:
        valid = _valid(column)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if given.precision > WORD_DIGITS and not np.array_equal(high, low >> 63):
        raise _RowPathNeeded
    limit = 10**type.precision - 1
    return _with_nulls(low, column, (-limit, limit))


def _read_doubles(column: Any, type: SqlType) -> Array:
    import pyarrow as pa

    _check_type(column.type, *((pa.float32(),) if type.kind is Kind.REAL else (pa.float32(), pa.float64())))
    filled = column.fill_null(0.0) if column.null_count else column
    numbers = filled.to_numpy().astype(np.float64) + 0.0  # -0.0 becomes 0.0, as it does over rows
    if not np.isfinite(numbers).all():
        raise _RowPathNeeded
    if column.null_count:
        numbers[~_valid(column)] = np.nan
    return numbers


def _text(column: Any) -> Any:
    import pyarrow as pa

    return column if _check_text(column.type) else column.cast(pa.string())


def _check_text(given: Any) -> bool:
    """Whether strings are held as they are, not as views or in a dictionary; refuses what holds none."""
    import pyarrow as pa

    if pa.types.is_string(given) or pa.types.is_large_string(given):
        return True
    is_view = getattr(pa.types, "is_string_view", lambda _: False)
    if is_view(given) or (pa.types.is_dictionary(given) and pa.types.is_string(given.value_type)):
        return False
    raise _RowPathNeeded


def _filled(column: Any, integers: Any) -> Array:
    same = column.view(integers)
    return (same.fill_null(0) if column.null_count else same).to_numpy()


def _with_nulls(numbers: Array, column: Any, bounds: tuple[int, int]) -> Array:
    """A writable array of words: Numba takes a read-only one for another type."""
    words = np.array(numbers, np.int64)
    if words.min() < max(bounds[0], NULL + 1) or words.max() > bounds[1]:
        raise _RowPathNeeded
    if column.null_count:
        words[~_valid(column)] = NULL
    return words


def _valid(column: Any) -> Array:
    return column.is_valid().to_numpy(zero_copy_only=False)
