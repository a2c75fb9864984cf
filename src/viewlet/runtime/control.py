"""The control words: a small array through which compiled code tells Python how a call has ended.

Generated code and the kernels of this package import the names, which Numba compiles as constants.
"""

from __future__ import annotations

FAILURE, FULL, NEEDED_ROWS, NEEDED_STORE, ROWS_DONE, LOGGING, LOGGED, BY_OPPOSITES, BELOW, LARGEST = range(10)
"""What has gone wrong, if anything (`OVERFLOW`, `NOT_FINITE`, `LARGE`, `TOO_WIDE` or `FAR`); whether a store is full,
or the number of the full store plus 1; how many rows a store needs room for, and which store; up to which row of the
change a trigger is done; whether rows are logged before they change, and how many words the log has; whether the
change, if it is refused, is undone by running it with the opposite sign. A trigger writes `ROWS_DONE` itself, so that
it is right whenever an exception comes.

The last two are bits of doubles: what has to be added to those of `SMALL` to get the largest summand that is not looked
at more closely, and the largest that was."""
CONTROL_WORDS = 10

OVERFLOW, NOT_FINITE, LARGE, TOO_WIDE, FAR = 1, 2, 3, 4, 5
"""Values of `FAILURE`: a number overflows its type; a double is not finite; a summand was left out because it is too
large to be taken back with the opposite sign; a number fits its type, and not a word; the origin of its sums does not
serve a value (`codegen/rings/origins.py`)."""
