"""What goes wrong in matrix programs: shapes that do not fit, refused operations, numbers that are not finite."""

from __future__ import annotations

from viewlet.errors import DataError, Span, SqlError, ViewletError


class ShapeError(ViewletError):
    """Dimensions of matrices do not fit together; the message names the expressions and their shapes."""


class ProgramError(ViewletError):
    """A matrix program uses a name or an operation that it cannot use; the message says what to write instead."""


class NotationError(SqlError):
    """The text of a matrix program is wrong; the message shows the line with a caret under the fragment."""

    def __init__(self, message: str, text: str, start: int, end: int) -> None:
        super().__init__(message, text, Span(start, end))


class MatrixDataError(DataError):
    """A matrix or an update has the wrong shape or type, or holds a number that is not finite."""


class LinAlgWarning(UserWarning):
    """A result was recomputed or may be inaccurate, because an update was numerically close to singular."""
