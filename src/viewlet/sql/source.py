"""A statement's text and where each syntax node stands in it, so that errors can point.

Parsing happens on the statement alone; spans are given in the whole script.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewlet.errors import Span, SqlError, UnsupportedError


class MismatchError(Exception):
    """Types or arguments do not fit; the binder turns it into a `SqlError` at the node it was binding."""


@dataclass(frozen=True, slots=True)
class Source:
    """`text` is the statement, which begins at `offset` of `script`."""

    script: str
    offset: int
    text: str

    def span(self, node: exp.Expr | None) -> Span | None:
        """The characters from the first to the last name or literal inside the node, parentheses balanced."""
        if node is None:
            return None
        marks = [part.meta for part in node.walk() if "start" in part.meta]
        if not marks:
            return None
        start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks) + 1
        missing = self.text.count("(", start, end) - self.text.count(")", start, end)
        while missing > 0 and (closing := self.text.find(")", end)) >= 0:
            end, missing = closing + 1, missing - 1
        return self.shift(start, end)

    def shift(self, start: int, end: int) -> Span:
        return Span(start + self.offset, end + self.offset)

    def error(self, message: str, node: exp.Expr | None = None) -> SqlError:
        return SqlError(message, self.script, self.span(node) or self._whole())

    def error_at(self, message: str, start: int, end: int) -> SqlError:
        return SqlError(message, self.script, self.shift(start, end))

    def unsupported(self, construct: str, node: exp.Expr | None = None, hint: str = "") -> UnsupportedError:
        return UnsupportedError(construct, hint, sql=self.script, span=self.span(node) or self._find(construct))

    def _find(self, construct: str) -> Span:
        """Where a keyword of the construct stands in the text; the statement itself if nowhere."""
        lowered = self.text.lower()
        position = lowered.find(construct.lower())
        if position >= 0:
            return self.shift(position, position + len(construct))
        for word in construct.lower().split():
            position = lowered.find(word)
            if len(word) > 3 and position >= 0:
                return self.shift(position, position + len(word))
        return self._whole()

    def _whole(self) -> Span:
        body = self.text.rstrip()
        lead = len(body) - len(body.lstrip())
        return self.shift(lead, max(len(body), lead + 1))


def name_of(identifier: exp.Expr) -> str:
    """Identifiers are folded to lower case unless quoted."""
    if isinstance(identifier, exp.Identifier) and identifier.args.get("quoted"):
        return str(identifier.this)
    return str(identifier.name).lower()


def quoted(name: str) -> str:
    """A name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def is_short_number(text: str, digits: int = 10) -> bool:
    """Whether a text is a whole number of a few digits, without a sign."""
    return text.isascii() and text.isdecimal() and len(text) <= digits


def whole_number(text: str) -> int | None:
    """The number that plain digits stand for; None for anything else, and for more digits than any type has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 100 else None


def sql_of(node: exp.Expr) -> str:
    """A node as SQL, for messages and names; nodes that the generator cannot write are called by their class."""
    try:
        return node.sql("duckdb")
    except Exception:
        return node.key.upper()
