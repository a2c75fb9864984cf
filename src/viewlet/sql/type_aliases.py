"""CREATE TYPE name AS type: another name for a type, which statements are read without.

CREATE TYPE money AS DECIMAL(12,2)      CREATE TABLE t (a money)   ->   CREATE TABLE t (a DECIMAL(12,2))

What is declared does not depend on the name, so that a type may be dropped at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from viewlet.sql.datatypes import to_column_type
from viewlet.sql.parser import parse_text
from viewlet.sql.source import Source
from viewlet.sql.split import RawStatement, split_statements, unquoted
from viewlet.sql.statements import CreateType, Drop

Types = Mapping[str, str]
"""The types by name, which are equal in any case."""
_NO_COLUMN = ("CONSTRAINT", "PRIMARY", "PRIMARY KEY", "FOREIGN", "FOREIGN KEY", "UNIQUE", "CHECK")


def expanded(raw: RawStatement, types: Types) -> RawStatement:
    """A statement in which the types stand for themselves."""
    text, shift = raw.text, 0
    for at in _type_places(raw) if types else ():
        word = raw.words[at]
        definition = None if word.startswith("'") else types.get(unquoted(word).casefold())
        if definition is not None:
            start, end = (place + shift for place in raw.positions[at])
            text = text[:start] + definition + text[end:]
            shift += len(definition) - (end - start)
    return raw if text is raw.text else next(split_statements(text))


def _type_places(raw: RawStatement) -> Iterator[int]:
    """The places of words that are types: in casts, and in what declares columns."""
    words, openers = raw.words, list[str]()
    schema = _schema(raw)
    for at, word in enumerate(words[:-1]):
        if word == "(":
            openers.append(words[at - 1] if at else "")
        elif word == ")" and openers:
            openers.pop()
        in_schema = schema and at > schema and len(openers) == 1
        is_column = in_schema and words[at - 1] in ("(", ",") and word not in _NO_COLUMN
        is_cast = word == "::" or (word == "AS" and openers[-1:] in (["CAST"], ["TRY_CAST"]))
        if is_column or is_cast:
            yield at + 1
    if words[:2] == ("ALTER", "TABLE"):
        yield from _altered(words)
    if (of := _type_of(raw)) is not None and of < len(words):
        yield of


def _schema(raw: RawStatement) -> int:
    """The place of the bracket before the columns of a table; 0 if there is none."""
    words = raw.words
    if words[0] != "CREATE":
        return 0
    kind = next((at for at, word in enumerate(words[:5]) if word in ("TABLE", "STREAM")), 0)
    at = kind + (5 if words[kind + 1 : kind + 4] == ("IF", "NOT", "EXISTS") else 2)
    return at if kind and words[at : at + 1] == ("(",) else 0


def _altered(words: tuple[str, ...]) -> Iterator[int]:
    """ALTER TABLE t ADD [COLUMN] [IF NOT EXISTS] c type, and ALTER c [SET DATA] TYPE type"""
    for at in range(3, len(words)):
        if words[at] == "TYPE" and at > 4:
            yield at + 1
        if words[at] == "ADD":
            at += 1 + (words[at + 1 : at + 2] == ("COLUMN",))
            at += 3 * (words[at : at + 3] == ("IF", "NOT", "EXISTS"))
            yield at + 1


def _type_of(raw: RawStatement) -> int | None:
    """The place of the type that CREATE TYPE gives a name; None in other statements."""
    words = raw.words
    at = 3 if words[1:3] == ("OR", "REPLACE") else 1
    if words[0] != "CREATE" or words[at : at + 1] != ("TYPE",):
        return None
    at += 3 * (words[at + 1 : at + 4] == ("IF", "NOT", "EXISTS"))
    return at + 3 if words[at + 2 : at + 3] == ("AS",) else len(words)


def bind_type(raw: RawStatement) -> CreateType | Drop | None:
    """CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS type, and DROP TYPE [IF EXISTS] name; None if it is neither."""
    words, source = raw.words, raw.source
    if words[:2] == ("DROP", "TYPE"):
        exists = words[2:4] == ("IF", "EXISTS")
        at = 4 if exists else 2
        if len(words) - at - (words[-1] in ("CASCADE", "RESTRICT")) != 1:
            raise source.error("DROP TYPE name is expected")
        return Drop((unquoted(words[at]).casefold(),), "TYPE", exists)
    at = _type_of(raw) or 0
    if not at:
        return None
    if at >= len(words):
        raise source.error("CREATE TYPE name AS type is expected")
    if words[at] == "ENUM":
        hint = "its values have an order of their own; declare columns VARCHAR CHECK (c IN (...))"
        raise source.unsupported("an ENUM", None, hint)
    name = unquoted(words[at - 2]).casefold()
    if not isinstance(named := _data_type(name, source), exp.DataType) or named.this is not exp.DType.USERDEFINED:
        raise source.error_at(f"{name!r} is a type already", *raw.positions[at - 2])
    node = _data_type(raw.text_from(at), source)
    type, length = to_column_type(node, source, node)
    definition = str(type) if length is None else f"{type}({length})"
    return CreateType(name, definition, "EXISTS" in words[: at - 2], words[1] == "OR")


def _data_type(text: str, source: Source) -> exp.DataType:
    node, _ = parse_text(f"CREATE TABLE t (c {text})")
    found = None if node is None else node.find(exp.DataType)
    if found is None:
        raise source.error("CREATE TYPE name AS type is expected")
    return found
