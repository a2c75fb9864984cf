"""Values as code, and conditions composed of code."""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.types import SqlType

NEVER, ALWAYS = "False", "True"


@dataclass(frozen=True, slots=True)
class Word:
    """A value as code: `code` is the value where `present` holds; doubles are floats, all else int64 words.

    Wherever `code` is evaluated, `present` has been evaluated just before: it may keep the value that `code` reads.
    """

    code: str
    present: str
    is_float: bool

    @property
    def key(self) -> str:
        """The value as a word of a key, where it is not NULL."""
        return f"bits_of({self.code})" if self.is_float else self.code

    @property
    def nullable_key(self) -> str:
        """The value as a word of a key, with NULL written out."""
        return f"bits_of({null_word(self)})" if self.is_float else null_word(self)


def null_word(word: Word) -> str:
    """The value with NULL written out."""
    if word.present == ALWAYS:
        return word.code
    null = "NAN" if word.is_float else "NULL"
    return null if word.present == NEVER else f"({word.code} if {word.present} else {null})"


def both(*parts: str) -> str:
    kept = list(dict.fromkeys(part for part in parts if part != ALWAYS))
    if NEVER in kept:
        return NEVER
    return ALWAYS if not kept else kept[0] if len(kept) == 1 else "(" + " and ".join(kept) + ")"


def either(*parts: str) -> str:
    kept = list(dict.fromkeys(part for part in parts if part != NEVER))
    if ALWAYS in kept:
        return ALWAYS
    return NEVER if not kept else kept[0] if len(kept) == 1 else "(" + " or ".join(kept) + ")"


def negated(part: str) -> str:
    return {ALWAYS: NEVER, NEVER: ALWAYS}.get(part, f"(not {part})")


def present_code(name: str, type: SqlType) -> str:
    """Code for "the variable is not NULL"."""
    if not type.nullable:
        return ALWAYS
    return f"({name} == {name})" if type.is_float else f"({name} != NULL)"
