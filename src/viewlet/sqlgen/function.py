"""What an entry of the table of scalar functions in SQL is."""

from __future__ import annotations

from collections.abc import Callable

from viewlet.algebra.nodes import Call
from viewlet.sqlgen.dialects import Dialect
from viewlet.sqlgen.terms import Term

Terms = tuple[Term, ...]
Writer = Callable[[Call, Terms, Dialect], str]
"""The text of a call from the terms of its arguments; a decimal result is in units."""
