"""The clauses of MATCH_RECOGNIZE, which the parser of SQL does not know, and its row patterns.

FROM source MATCH_RECOGNIZE (
    [PARTITION BY column, ...] ORDER BY item, ... [MEASURES expression AS name, ...]
    [ONE ROW PER MATCH | ALL ROWS PER MATCH [SHOW EMPTY MATCHES | OMIT EMPTY MATCHES]]
    [AFTER MATCH SKIP PAST LAST ROW | TO NEXT ROW | TO [FIRST | LAST] variable]
    PATTERN (row pattern) [WITHIN INTERVAL ...] [SUBSET name = (variable, ...), ...]
    DEFINE variable AS condition, ...
)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from viewlet.sql.source import is_short_number
from viewlet.sql.split import RawStatement, unquoted
from viewlet.sql.streams.statements import Reader
from viewlet.streams.matching.definition import Skip
from viewlet.streams.matching.row_pattern import Choice, Empty, End, Repeat, RowPattern, Start, Variable
from viewlet.streams.matching.row_pattern import Sequence as RowSequence

WORD = "MATCH_RECOGNIZE"
MOST_REPETITIONS = 1000
_STARTS = ("PARTITION BY", "ORDER BY", "MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "WITHIN", "SUBSET", "DEFINE")
_SYMBOLS = set("?*+|{}^$-(),")
Range = tuple[int, int]
"""Words from..to of a statement, the last excluded."""


@dataclass(slots=True)
class MatchClauses:
    """What a MATCH_RECOGNIZE says, with its expressions as ranges of words."""

    source: int
    """The word that names the source."""
    end: int
    """The word after the closing parenthesis."""
    keys: list[Range] = field(default_factory=list)
    order: list[Range] = field(default_factory=list)
    measures: list[Range] = field(default_factory=list)
    defines: dict[str, Range] = field(default_factory=dict)
    subsets: dict[str, tuple[int, ...]] = field(default_factory=dict)
    variables: list[str] = field(default_factory=list)
    """The variables of the pattern, as CLASSIFIER() shows them."""
    pattern: RowPattern | None = None
    skip: Skip = field(default_factory=Skip)
    within: int | None = None
    all_rows: bool = False
    omits_empty: bool = False

    def members(self, name: str) -> tuple[int, ...] | None:
        """The variables that a name stands for."""
        if name in self.variables:
            return (self.variables.index(name),)
        return self.subsets.get(name)


def split_symbols(raw: RawStatement) -> RawStatement:
    """A statement whose runs of symbols of row patterns, such as `??`, are single symbols."""
    words: list[str] = []
    positions: list[tuple[int, int]] = []
    for word, (start, end) in zip(raw.words, raw.positions, strict=True):
        if set(word) <= _SYMBOLS:
            words += word
            positions += [(at, at + 1) for at in range(start, end)]
        elif word.endswith("$"):  # a name may have one, but that of a variable at the end of a pattern has not
            words += [word[:-1], "$"]
            positions += [(start, end - 1), (end - 1, end)]
        else:
            words.append(word)
            positions.append((start, end))
    return RawStatement(raw.source, tuple(words), tuple(positions))


def variable_name(word: str) -> str:
    """A name as CLASSIFIER() shows it: in upper case unless quoted."""
    return unquoted(word) if word.startswith('"') else word.upper()


def read_clauses(raw: RawStatement, at: int) -> MatchClauses:
    """The clauses of the MATCH_RECOGNIZE at a word."""
    reader = Reader(raw, at + 1)
    reader.take("(")
    clauses = MatchClauses(at - 1, closing(reader, reader.at - 1) + 1)
    skip_at: int | None = None
    seen: list[str] = []
    while reader.at < clauses.end - 1:
        word = reader.word
        if word not in _STARTS:
            raise reader.error(f"'{word}' begins no clause of {WORD}: {', '.join(_STARTS)} do")
        if word in seen:
            raise reader.error(f"{word} is there twice")
        seen.append(word)
        begin, until = reader.at + 1, _end_of_clause(reader, clauses.end - 1)
        if word == "AFTER":
            skip_at = begin
        else:
            _CLAUSES[word](Reader(raw, begin), until, clauses)
        reader.at = until
    for wanted in ("PATTERN", "DEFINE", "ORDER BY"):
        if wanted not in seen:
            raise Reader(raw, at).error(f"{WORD} needs {wanted}")
    if skip_at is not None:
        clauses.skip = _skip(Reader(raw, skip_at), clauses)
    _check_names(raw, clauses)
    return clauses


def closing(reader: Reader, opening: int) -> int:
    """The word that closes a parenthesis."""
    depth = 0
    for at in range(opening, len(reader.raw.words)):
        depth += (reader.raw.words[at] == "(") - (reader.raw.words[at] == ")")
        if depth == 0:
            return at
    raise reader.error("a ')' is missing", opening)


def _end_of_clause(reader: Reader, end: int) -> int:
    words, depth, at = reader.raw.words, 0, reader.at + 1
    while at < end:
        depth += (words[at] in ("(", "{")) - (words[at] in (")", "}"))
        if depth == 0 and _begins_clause(words, at):
            return at
        at += 1
    return end


def _begins_clause(words: Sequence[str], at: int) -> bool:
    following = words[at + 1] if at + 1 < len(words) else ""
    pairs = {"ONE": "ROW", "ALL": "ROWS", "AFTER": "MATCH", "PATTERN": "(", "WITHIN": "INTERVAL"}
    if words[at] in pairs:
        return following == pairs[words[at]]
    return words[at] in _STARTS and words[at - 1] != "." and following not in (",", ".", ")")


def split_list(raw: RawStatement, begin: int, end: int) -> list[Range]:
    """The items of a list between commas."""
    found, depth, start = [], 0, begin
    for at in range(begin, end):
        depth += (raw.words[at] in ("(", "[")) - (raw.words[at] in (")", "]"))
        if raw.words[at] == "," and depth == 0:
            found.append((start, at))
            start = at + 1
    found.append((start, end))
    for first, last in found:
        if first == last:
            raise Reader(raw, min(first, len(raw.words) - 1)).error("something is missing here")
    return found


# -- clauses ----------------------------------------------------------------------------------------------------------


def _keys(reader: Reader, end: int, clauses: MatchClauses) -> None:
    clauses.keys = split_list(reader.raw, reader.at, end)


def _order(reader: Reader, end: int, clauses: MatchClauses) -> None:
    clauses.order = split_list(reader.raw, reader.at, end)


def _measures(reader: Reader, end: int, clauses: MatchClauses) -> None:
    clauses.measures = split_list(reader.raw, reader.at, end)


def _one_row(reader: Reader, end: int, clauses: MatchClauses) -> None:
    for word in ("ROW", "PER", "MATCH"):
        reader.take(word)
    _finished(reader, end)


def _all_rows(reader: Reader, end: int, clauses: MatchClauses) -> None:
    for word in ("ROWS", "PER", "MATCH"):
        reader.take(word)
    clauses.all_rows = True
    if reader.word == "WITH" and reader.at < end:
        hint = "rows without a match are those of the stream that the view does not have"
        raise reader.raw.source.unsupported("WITH UNMATCHED ROWS", None, hint)
    if reader.at < end:
        clauses.omits_empty = reader.take("SHOW", "OMIT") == "OMIT"
        reader.take("EMPTY")
        reader.take("MATCHES")
    _finished(reader, end)


def _pattern(reader: Reader, end: int, clauses: MatchClauses) -> None:
    reader.take("(")
    clauses.pattern = _choice(reader, clauses)
    reader.take(")")
    _finished(reader, end)


def _within(reader: Reader, end: int, clauses: MatchClauses) -> None:
    clauses.within = reader.interval()
    _finished(reader, end)


def _subset(reader: Reader, end: int, clauses: MatchClauses) -> None:
    for begin, _ in split_list(reader.raw, reader.at, end):
        reader.at = begin
        name = variable_name(reader.next())
        reader.take("=")
        reader.take("(")
        members: list[int] = []
        while True:
            at, member = reader.at, variable_name(reader.next())
            if member not in clauses.variables:
                raise reader.error(f"{member} is no variable of the pattern", at)
            members.append(clauses.variables.index(member))
            if reader.take(",", ")") == ")":
                break
        if name in clauses.variables or name in clauses.subsets:
            raise reader.error(f"{name} is the name of something else already", begin)
        clauses.subsets[name] = tuple(sorted(set(members)))


def _define(reader: Reader, end: int, clauses: MatchClauses) -> None:
    for begin, until in split_list(reader.raw, reader.at, end):
        reader.at = begin
        name = variable_name(reader.next())
        reader.take("AS")
        if name in clauses.defines:
            raise reader.error(f"{name} is defined twice", begin)
        clauses.defines[name] = reader.at, until


_CLAUSES = {
    "PARTITION BY": _keys,
    "ORDER BY": _order,
    "MEASURES": _measures,
    "ONE": _one_row,
    "ALL": _all_rows,
    "PATTERN": _pattern,
    "WITHIN": _within,
    "SUBSET": _subset,
    "DEFINE": _define,
}


def _skip(reader: Reader, clauses: MatchClauses) -> Skip:
    reader.take("MATCH")
    reader.take("SKIP")
    if reader.take("PAST", "TO") == "PAST":
        reader.take("LAST")
        reader.take("ROW")
        return Skip()
    if reader.word == "NEXT" and reader.raw.words[reader.at + 1 : reader.at + 2] == ("ROW",):
        return Skip(is_past_last=False)
    is_first = reader.word == "FIRST"
    reader.at += reader.word in ("FIRST", "LAST")
    at, name = reader.at, variable_name(reader.next())
    members = clauses.members(name)
    if members is None:
        raise reader.error(f"{name} is no variable of the pattern", at)
    return Skip(is_past_last=False, variables=members, is_first=is_first)


def _finished(reader: Reader, end: int) -> None:
    if reader.at != end:
        raise reader.error("this is not understood here")


def _check_names(raw: RawStatement, clauses: MatchClauses) -> None:
    for name, (begin, _) in clauses.defines.items():
        if name not in clauses.variables:
            raise Reader(raw, begin).error(f"{name} is no variable of the pattern", begin - 2)
    if not clauses.variables:
        raise Reader(raw, clauses.source + 1).error("a pattern has at least one variable")


# -- row patterns -----------------------------------------------------------------------------------------------------


def _choice(reader: Reader, clauses: MatchClauses) -> RowPattern:
    """pattern | pattern | ..."""
    items = [_sequence(reader, clauses)]
    while reader.word == "|":
        reader.next()
        items.append(_sequence(reader, clauses))
    return items[0] if len(items) == 1 else Choice(tuple(items))


def _sequence(reader: Reader, clauses: MatchClauses) -> RowPattern:
    items: list[RowPattern] = []
    while reader.word not in ("|", ")", ""):
        items.append(_repeated(reader, clauses))
    if not items:
        return Empty()
    return items[0] if len(items) == 1 else RowSequence(tuple(items))


def _repeated(reader: Reader, clauses: MatchClauses) -> RowPattern:
    """A pattern with its quantifier; a ? after that makes it reluctant."""
    item = _item(reader, clauses)
    bounds: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    if reader.word in bounds:
        least, most = bounds[reader.next()]
    elif reader.word == "{" and reader.raw.words[reader.at + 1 : reader.at + 2] != ("-",):
        least, most = _braces(reader)
    else:
        return item
    is_reluctant = reader.word == "?"
    reader.at += is_reluctant
    return Repeat(item, least, most, not is_reluctant)


def _braces(reader: Reader) -> tuple[int, int | None]:
    """{n}, {n,}, {,m} or {n,m}"""
    at = reader.at
    reader.take("{")
    least = _count(reader) if reader.word != "," else 0
    most: int | None = least
    if reader.word == ",":
        reader.next()
        most = _count(reader) if reader.word != "}" else None
    reader.take("}")
    if most is not None and (most < least or most == 0):
        raise reader.error("a quantifier is {n}, {n,}, {,m} or {n,m} with n <= m and m > 0", at)
    return least, most


def _count(reader: Reader) -> int:
    word = reader.next()
    if not is_short_number(word) or int(word) > MOST_REPETITIONS:
        raise reader.error(f"a number of at most {MOST_REPETITIONS} is expected here", reader.at - 1)
    return int(word)


def _item(reader: Reader, clauses: MatchClauses) -> RowPattern:
    at, word = reader.at, reader.next()
    if word == "(":
        inner = _choice(reader, clauses)
        reader.take(")")
        return inner
    if word in ("^", "$"):
        return Start() if word == "^" else End()
    if word == "{":
        raise reader.raw.source.unsupported(
            "exclusion {- -} in a row pattern", None, "leave the rows out in a view over it"
        )
    if word == "PERMUTE" and reader.word == "(":
        raise reader.raw.source.unsupported("PERMUTE in a row pattern", None, "write the orders with |")
    name = variable_name(word)
    if not word.startswith('"') and not word.replace("_", "").isalnum():
        raise reader.error(f"'{word}' is not understood in a row pattern", at)
    if name not in clauses.variables:
        clauses.variables.append(name)
    return Variable(clauses.variables.index(name))
