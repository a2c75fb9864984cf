"""Splitting a script at its semicolons, and the few words of ours the parser does not know.

`CREATE STREAM` and `CREATE STATIC TABLE` are rewritten to `CREATE TABLE` of the same length: positions stay right.
So does `SELECT FACTORIZED`, where blanks take the word's place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import SqlError
from viewlet.sql.depth import check_nesting, room_for
from viewlet.sql.parser import parse_text, quiet, tokens_of
from viewlet.sql.source import Source
from viewlet.types import TableKind

DIALECT = "duckdb"
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.RAW_STRING, TokenType.HEREDOC_STRING)
_OURS = (
    "CREATE",
    "DROP",
    "INSERT",
    "UPDATE",
    "DELETE",
    "SELECT",
    "WITH",
    "VALUES",
    "FROM",
    "DESCRIBE",
    "SHOW",
    "SUMMARIZE",
)
FACTORISED = ("FACTORIZED", "FACTORISED")


@dataclass(frozen=True, slots=True)
class RawStatement:
    """One statement of a script, cut into tokens whose positions are relative to its own text.

    Words are in upper case, apart from strings and quoted names, which keep their quotes and are no keywords.
    """

    source: Source
    words: tuple[str, ...]
    positions: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        return self.source.text

    def name_at(self, at: int) -> str:
        """The name that a word is."""
        start, end = self.positions[at]
        return unquoted(self.text[start:end]).lower()

    def text_from(self, word: int) -> str:
        return self.text[self.positions[word][0] :].strip()


def split_statements(sql: str) -> Iterator[RawStatement]:
    """The statements of a script, empty ones left out."""
    tokens: list[Token] = []
    for token in tokenize(sql):
        if token.token_type is TokenType.SEMICOLON:
            if tokens:
                yield _statement(sql, tokens)
            tokens = []
        else:
            tokens.append(token)
    if tokens:
        yield _statement(sql, tokens)


def _statement(sql: str, tokens: list[Token]) -> RawStatement:
    if tokens[0].text.upper() in _IN_ONE_PIECE and len(tokens) == 2:
        return _cut(sql, tokens)
    start, end = tokens[0].start, tokens[-1].end + 1
    words = tuple(_word(token, sql) for token in tokens)
    positions = tuple((token.start - start, token.end + 1 - start) for token in tokens)
    return RawStatement(Source(sql, start, sql[start:end]), words, positions)


_IN_ONE_PIECE = ("EXPLAIN", "PREPARE", "EXECUTE")
"""Words after which the tokenizer hands over the rest of the statement as one piece of text."""


def _cut(sql: str, tokens: list[Token]) -> RawStatement:
    """One of these words and the tokens of what follows it."""
    (head, rest), start = tokens, tokens[0].start
    begin = sql.index(rest.text, head.end + 1)
    end = begin + len(rest.text)
    inner, shift = tokenize(rest.text), begin - start
    words = (head.text.upper(), *(_word(token, rest.text) for token in inner))
    positions = tuple((token.start + shift, token.end + 1 + shift) for token in inner)
    return RawStatement(Source(sql, start, sql[start:end]), words, ((0, head.end + 1 - start), *positions))


def _word(token: Token, sql: str) -> str:
    return sql[token.start : token.end + 1] if token.token_type in _QUOTED else token.text.upper()


def identifier(word: str) -> str:
    """The name that a word is: in lower case, unless it is quoted."""
    return unquoted(word) if word.startswith('"') else word.lower()


def unquoted(word: str) -> str:
    """The text of a word without its quotes."""
    mark = word[:1]
    if mark not in ("'", '"') or len(word) < 2:
        return word
    return word[1:-1].replace(mark * 2, mark)


def tokenize(sql: str) -> list[Token]:
    source = Source(sql, 0, sql)
    _check_characters(source)
    try:
        with quiet():
            tokens = tokens_of(sql)
    except TokenError:
        start = _unclosed(sql)
        raise source.error_at("unreadable SQL: a quote or comment is not closed", start, len(sql)) from None
    for token in tokens if "\0" in sql else ():
        if "\0" in token.text and token.token_type not in _QUOTED:
            raise source.error_at("a NUL character outside quotes", token.start, token.end + 1)
    return tokens


def ends_statement(sql: str) -> bool:
    """Its last token is a semicolon."""
    tokens = tokenize(sql)
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


def _check_characters(source: Source) -> None:
    """Text that cannot be written as UTF-8 cannot be stored or handed on."""
    if source.text.isascii():
        return
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        raise source.error_at("half of a surrogate pair is no character", error.start, error.start + 1) from None


def _unclosed(sql: str) -> int:
    """Where the quote or comment that is never closed begins."""
    position = 0
    while position < len(sql):
        for opening, closing in (("'", "'"), ('"', '"'), ("/*", "*/"), ("--", "\n")):
            if sql.startswith(opening, position):
                end = sql.find(closing, position + len(opening))
                if end < 0:
                    return position
                position = end + len(closing) - 1
                break
        position += 1
    return max(len(sql) - 1, 0)


def parse(raw: RawStatement, skip: int = 0, aggregates: Collection[str] = ()) -> exp.Expr:
    """The syntax tree of a statement without its first `skip` tokens; `aggregates` are those that users defined."""
    begin = raw.positions[skip][0]
    blank = " " * begin + raw.text[begin:]
    levels = check_nesting(raw.words, raw.positions, raw.source)
    try:
        with room_for(levels):
            node, given_up = parse_text(_plain_create(raw, blank), aggregates)
    except ParseError as error:
        raise _syntax_error(raw.source, error) from None
    except TokenError:
        raise raw.source.error("unreadable SQL") from None
    except RecursionError:
        raise raw.source.error("nested too deeply") from None
    if node is None:
        raise raw.source.error("a statement is expected")
    if isinstance(node, exp.Command) or (given_up is not None and node.find(exp.Command) is not None):
        raise _not_understood(raw, given_up)
    return node


def _not_understood(raw: RawStatement, given_up: Token | None) -> SqlError:
    """The error for a statement that the parser hands over as text: for one of ours, where it gave up."""
    first = raw.words[0]
    if first not in _OURS or given_up is None:
        return raw.source.unsupported(f"{first} statement", None)
    start, end = given_up.start, given_up.end + 1
    return raw.source.error_at(f"syntax error in {first}: this is not understood", start, end)


def _plain_create(raw: RawStatement, text: str) -> str:
    for at in _kept_words(raw):
        start, end = raw.positions[at]
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    kind, word = create_kind(raw)
    factorised = factorised_word(raw)
    if factorised is not None:
        start, end = raw.positions[factorised]
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    if kind is TableKind.STREAM:
        start, end = raw.positions[word]
        return f"{text[:start]}TABLE{' ' * (end - start - 5)}{text[end:]}"
    if kind is TableKind.STATIC:
        start, end = raw.positions[word]
        return f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _kept_words(raw: RawStatement) -> Iterator[int]:
    """The places of STORED and VIRTUAL after AS (expression): generated columns are stored here in any case."""
    openers: list[str] = []
    before = ""
    for at, word in enumerate(raw.words if raw.words[0] in ("CREATE", "ALTER") else ()):
        if word in ("STORED", "VIRTUAL") and before == "AS" and raw.words[at - 1] == ")":
            yield at
        if word == "(":
            openers.append(raw.words[at - 1])
        elif word == ")" and openers:
            before = openers.pop()


def create_kind(raw: RawStatement) -> tuple[TableKind, int]:
    """The kind of object that CREATE (or DROP) names, and the word that says so."""
    words = raw.words
    at = 3 if words[1:3] == ("OR", "REPLACE") else 1
    if words[0] in ("CREATE", "DROP") and len(words) > at + 1:
        if words[at] == "STREAM":
            return TableKind.STREAM, at
        if words[at] == "STATIC" and words[at + 1] == "TABLE":
            return TableKind.STATIC, at
    return TableKind.TABLE, at


def factorised_word(raw: RawStatement) -> int | None:
    """The word FACTORIZED after a SELECT, unless it is the name of a column there."""
    words = raw.words
    for at in range(1, len(words) - 2):
        if words[at - 1] == "SELECT" and words[at] in FACTORISED:
            star = words[at + 1] == "*" and words[at + 2] in ("FROM", ",")
            name = words[at + 1].replace("_", "").isalnum() and words[at + 1] not in ("FROM", "AS")
            return at if star or name else None
    return None


def _syntax_error(source: Source, error: ParseError) -> SqlError:
    problem = error.errors[0] if error.errors else {}
    description = str(problem.get("description") or error)
    highlight = str(problem.get("highlight") or "")
    start = len(str(problem.get("start_context") or ""))
    line, column = problem.get("line"), problem.get("col")
    if line is not None and column is not None:
        lines = source.text.splitlines(keepends=True)
        start = sum(len(each) for each in lines[: line - 1]) + column - len(highlight)
    return source.error_at(f"syntax error: {_readable(description)}", max(start, 0), max(start, 0) + len(highlight))


def _readable(description: str) -> str:
    """The parser's message without its own class names."""
    if description.startswith("Required keyword"):
        return "something is missing here"
    if " but got <Token" in description:
        return description.split(" but got <Token")[0][:1].lower() + description.split(" but got <Token")[0][1:]
    return description[:1].lower() + description[1:]
