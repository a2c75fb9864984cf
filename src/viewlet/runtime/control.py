"""The control words: a small array through which compiled code tells Python how a call has ended.

Generated code and the kernels of this package import the names, which Numba compiles as constants.
"""

from __future__ import annotations

FAILURE, FULL, NEEDED_ROWS, NEEDED_STORE, ROWS_DONE, LOGGING, LOGGED = range(7)
"""What has gone wrong, if anything (`OVERFLOW` or `NOT_FINITE`); whether a store is full, or the number of the full
store plus 1; how many rows a store needs room for, and which store; up to which row of the change a trigger is done;
whether rows are logged before they change, and how many words the log has. A trigger writes `ROWS_DONE` itself, so that
it is right whenever an exception comes."""
CONTROL_WORDS = 7

OVERFLOW, NOT_FINITE = 1, 2
"""Values of `FAILURE`: a number overflows its type; a double is not finite."""
