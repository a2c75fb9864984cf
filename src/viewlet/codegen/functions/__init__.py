"""Scalar functions as code: a table from the name of a function to its writer.

A writer takes the words of the arguments and returns the word of the result, or None for types it does not handle. The
function is then computed by the interpreter's implementation, once per distinct arguments (`Support.recall`).
"""

from __future__ import annotations

from viewlet.codegen.functions.calendar import CALENDAR
from viewlet.codegen.functions.casts import CASTS
from viewlet.codegen.functions.numeric import NUMERIC
from viewlet.codegen.functions.writer import FunctionWriter

WRITERS: dict[str, FunctionWriter] = {**NUMERIC, **CASTS, **CALENDAR}
