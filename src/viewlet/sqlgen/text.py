"""Functions of strings as SQL text: LIKE, substrings, trimming."""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.algebra.nodes import Call
from viewlet.sqlgen.dialects import Dialect, unsupported
from viewlet.sqlgen.function import Terms, Writer
from viewlet.sqlgen.terms import Term

_ESCAPE = "\\"


def _like(operator: str) -> Writer:
    """Rewrites the pattern with one escape character: dialects have different default escapes."""

    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        pattern = _constant_text(args[1])
        escape = _constant_text(args[2]) if len(args) > 2 else ""
        if pattern is None or escape is None:
            raise unsupported(f"{operator} with a pattern that is not a constant")
        written = "".join(_escaped(pattern, escape))
        clause = f" ESCAPE {dialect.string(_ESCAPE)}" if _ESCAPE in written else ""
        return f"({args[0].sql} {operator} {dialect.string(written)}{clause})"

    return write


def _constant_text(term: Term) -> str | None:
    return term.constant.value if term.constant is not None and isinstance(term.constant.value, str) else None


def _escaped(pattern: str, escape: str) -> Iterator[str]:
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            following = next(characters, None)
            if following is None:
                raise unsupported(f"the LIKE pattern '{pattern}', which ends in its escape character,")
            yield _ESCAPE + following if following in ("%", "_", _ESCAPE) else following
        else:
            yield _ESCAPE * 2 if character == _ESCAPE else character


def _called(op: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        return f"{dialect.renamed.get(op, op.upper())}({', '.join(term.sql for term in args)})"

    return write


def _substring(node: Call, args: Terms, dialect: Dialect) -> str:
    """Positions count from 1, and from the end where they are negative; a negative length goes backwards."""
    value, start = args[0].sql, args[1].sql
    length = args[2].sql if len(args) > 2 else None
    if _is_count(args[1], 1) and (length is None or _is_count(args[2], 0)):
        return f"SUBSTRING({', '.join(term.sql for term in args)})"
    begin = f"(CASE WHEN {start} < 0 THEN LENGTH({value}) + {start} ELSE {start} - 1 END)"
    end = f"LENGTH({value})" if length is None else f"({begin} + {length})"
    return _between(f"GREATEST(LEAST({begin}, {end}), 0)", f"GREATEST({begin}, {end}, 0)", args)


def _between(begin: str, end: str, args: Terms) -> str:
    """The characters from position `begin`, counted from 0, to the one before `end`."""
    known = " AND ".join(f"{term.sql} IS NOT NULL" for term in args)
    part = f"SUBSTRING({args[0].sql}, CAST({begin} + 1 AS INTEGER), CAST(GREATEST({end} - {begin}, 0) AS INTEGER))"
    return f"(CASE WHEN {known} THEN {part} END)"


def _is_count(term: Term, least: int) -> bool:
    value = term.constant.value if term.constant is not None else None
    return isinstance(value, int) and value >= least


def _left(node: Call, args: Terms, dialect: Dialect) -> str:
    value, count = args[0].sql, args[1].sql
    return _between("0", f"(CASE WHEN {count} >= 0 THEN {count} ELSE LENGTH({value}) + {count} END)", args)


def _right(node: Call, args: Terms, dialect: Dialect) -> str:
    value, count = args[0].sql, args[1].sql
    begin = f"(CASE WHEN {count} >= 0 THEN GREATEST(LENGTH({value}) - {count}, 0) ELSE -{count} END)"
    return _between(begin, f"LENGTH({value})", args)


def _trim(side: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        return dialect.trim(side, args[0].sql, args[1].sql if len(args) > 1 else None)

    return write


def _concat(node: Call, args: Terms, dialect: Dialect) -> str:
    return dialect.concatenation([term.sql for term in args])


def _appended(node: Call, args: Terms, dialect: Dialect) -> str:
    return "(" + " || ".join(term.sql for term in args) + ")"


_CALLED = (
    "upper", "lower", "length", "position", "contains", "starts_with", "ends_with", "replace", "reverse",
)  # fmt: skip

TEXTUAL: dict[str, Writer] = {
    "like": _like("LIKE"),
    "ilike": _like("ILIKE"),
    "substring": _substring,
    "left": _left,
    "right": _right,
    "concat": _concat,
    "||": _appended,
    **{side: _trim(side) for side in ("trim", "ltrim", "rtrim")},
    **{op: _called(op) for op in _CALLED},
}
