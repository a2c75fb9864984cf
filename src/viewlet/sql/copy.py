"""COPY: rows of a table from a file, and of a table or a query to one.

    COPY t (a, b) FROM 'f.csv' (HEADER, DELIMITER ';')        COPY (SELECT ...) TO 'f.parquet' (FORMAT parquet)

DuckDB reads and writes the files, so that their options are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from viewlet.sql.scope import unknown
from viewlet.sql.source import quoted
from viewlet.sql.split import RawStatement, identifier, unquoted
from viewlet.sql.statements import Copy
from viewlet.types import Table, TableKind

_FORM = "COPY t [(columns)] FROM 'file' [(options)] or COPY {t | (query)} TO 'file' [(options)] is expected"
_FORMATS = ("csv", "parquet", "json")
_SUFFIXES = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".zst")
_SEVERAL_FILES = (
    "PARTITION_BY",
    "PARTITION BY",
    "PER_THREAD_OUTPUT",
    "FILE_SIZE_BYTES",
    "ROW_GROUPS_PER_FILE",
    "OVERWRITE",
    "OVERWRITE_OR_IGNORE",
    "APPEND",
    "FILENAME_PATTERN",
    "FILE_EXTENSION",
    "HIVE_FILE_PATTERN",
    "WRITE_PARTITION_COLUMNS",
)
_OTHER_ANSWERS = (
    "RETURN_FILES",
    "RETURN_STATS",
    "USE_TMP_FILE",
    "STORE_REJECTS",
    "REJECTS_TABLE",
    "REJECTS_SCAN",
    "REJECTS_LIMIT",
)


def bind_copy(raw: RawStatement, catalog: Mapping[str, Table]) -> Copy:
    words, table, query, columns = raw.words, "", "", tuple[str, ...]()
    if len(words) > 2 and words[1] == "(":
        at = _closing(raw, 1)
        query = raw.text[raw.positions[1][1] : raw.positions[at][0]]
        at += 1
    else:
        table, columns, at = _target(raw, catalog)
    if words[at : at + 1] not in (("FROM",), ("TO",)) or (query and words[at] == "FROM"):
        raise _expected(raw, at)
    writes = words[at] == "TO"
    if words[at + 1 : at + 2] in (("STDIN",), ("STDOUT",)):
        raise raw.source.unsupported(f"COPY with {words[at + 1]}", None, "name a file in quotes")
    if len(words) <= at + 1 or words[at + 1][0] != "'":
        raise _expected(raw, at + 1)
    if writes and table:
        listed = ", ".join(map(quoted, columns)) or "*"
        query = f"SELECT {listed} FROM {quoted(table)}"
    if not writes and catalog[table].kind is TableKind.VIEW:
        raise raw.source.error(f"'{table}' is a view: change the tables it reads")
    path = unquoted(words[at + 1])
    format, options = _options(raw, at + 2)
    return Copy(table, columns or _columns(catalog, table), query, path, writes, format or _format_of(path), options)


def _columns(catalog: Mapping[str, Table], table: str) -> tuple[str, ...]:
    """What a file is about that has no list: what is not computed from its rows."""
    return tuple(column.name for column in catalog[table].columns if column.generated is None) if table else ()


def _target(raw: RawStatement, catalog: Mapping[str, Table]) -> tuple[str, tuple[str, ...], int]:
    """The table that is named, its columns that are listed, and the place of the next word."""
    if len(raw.words) < 3:
        raise _expected(raw, len(raw.words))
    table = _name(raw, 1, "table or view", catalog)
    if raw.words[2] != "(":
        return table, (), 2
    end = _closing(raw, 2)
    columns = tuple(_name(raw, at, "column", catalog[table].column_names) for at in range(3, end, 2))
    if not columns or set(raw.words[4:end:2]) - {","} or len(set(columns)) < len(columns):
        raise raw.source.error("COPY takes a list of columns, each once")
    return table, columns, end + 1


def _name(raw: RawStatement, at: int, kind: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    start, end = raw.positions[at]
    written = raw.text[start:end]
    name = identifier(written)
    if name not in known:
        raise raw.source.error_at(unknown(kind, name, known), start, end)
    return name


def _closing(raw: RawStatement, at: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for i in range(at, len(raw.words)):
        depth += (raw.words[i] in "([{") - (raw.words[i] in ")]}")
        if depth == 0:
            return i
    raise _expected(raw, len(raw.words))


def _expected(raw: RawStatement, at: int) -> Exception:
    if at >= len(raw.words):
        return raw.source.error(_FORM)
    return raw.source.error_at(_FORM, *raw.positions[at])


def _options(raw: RawStatement, at: int) -> tuple[str, tuple[str, ...]]:
    """The format that is named, and the other options as they are written."""
    words = raw.words
    at += words[at : at + 1] == ("WITH",)
    if at >= len(words):
        return "", ()
    if words[at] != "(":
        raise raw.source.error_at(
            "options of COPY are written in brackets: (HEADER, DELIMITER ';')", *raw.positions[at]
        )
    end, depth, cuts = _closing(raw, at), 0, [at]
    if end != len(words) - 1:
        raise _expected(raw, end + 1)
    for i in range(at, end):
        depth += (words[i] in "([{") - (words[i] in ")]}")
        if words[i] == "," and depth == 1:
            cuts.append(i)
    format, options = "", list[str]()
    for before, after in pairwise((*cuts, end)):
        if after == before + 1:
            raise _expected(raw, after)
        name, start = unquoted(words[before + 1]).upper(), raw.positions[before + 1]
        if name in _SEVERAL_FILES:
            raise raw.source.unsupported(f"COPY with {name}", None, "a statement writes one file")
        if name in _OTHER_ANSWERS:
            raise raw.source.unsupported(f"COPY with {name}", None, "the answer is the number of rows")
        if name != "FORMAT":
            options.append(raw.text[start[0] : raw.positions[after][0]].strip())
            continue
        is_again, format = bool(format), unquoted(words[before + 2]).lower() if after == before + 3 else ""
        if format not in _FORMATS or is_again:
            raise raw.source.error_at(f"FORMAT is, once, one of {', '.join(_FORMATS)}", *start)
    return format, tuple(options)


def _format_of(path: str) -> str:
    """The format that the name of a file stands for."""
    name = path.lower()
    name = next((name.removesuffix(each) for each in _COMPRESSED if name.endswith(each)), name)
    return next((format for suffix, format in _SUFFIXES.items() if name.endswith(suffix)), "csv")
