"""Texts of users as people may see them: in errors, logs, terminals and drawings.

A name or a value may have control characters in it, which begin new lines of a log, move the cursor of a terminal, or
turn the direction of what follows. Here they are escaped. What programs read, such as rows and SQL, keeps them.
"""

from __future__ import annotations

import logging
import re

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_HIDDEN_IN_LINES = re.compile(rf"(?![\n\t]){_HIDDEN.pattern}")


def one_line(text: str) -> str:
    r"""
    >>> print(one_line("a\nb\x1b[31m"))
    a\nb\x1b[31m
    """
    return _HIDDEN.sub(_escaped, text)


def visible(text: str) -> str:
    """Like `one_line`, for texts that have lines and tabs of their own."""
    return _HIDDEN_IN_LINES.sub(_escaped, text)


def pictured(text: str) -> str:
    r"""Every character stays one character wide, so that places in the text stay what they are.

    >>> pictured("a\x1bb")
    'a␛b'
    """
    return _HIDDEN_IN_LINES.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd", text)


def described(value: object, longest: int = 80) -> str:
    """A value for a message, whatever it is: Python does not print numbers of thousands of digits, nor deep lists."""
    try:
        shown = repr(value)
    except Exception as error:
        why = "of thousands of digits" if isinstance(error, ValueError) else "that cannot be printed"
        shown = f"a {type(value).__name__} {why}"
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class _OneLine(logging.Filter):
    """A message of the log is one line, whatever the names in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if _HIDDEN.search(message) is not None:
            record.msg, record.args = one_line(message), ()
        return True


logger = logging.getLogger("viewlet")
"""The log of Viewlet."""
logger.addFilter(_OneLine())
