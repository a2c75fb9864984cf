"""The refusal of generated code."""

from __future__ import annotations

from viewlet.errors import SchemaError


class NotCompilable(SchemaError):  # noqa: N818 - a property of a query or a ring, not a fault
    """Generated code cannot express a query, or a ring has no compiled form: the reference engine serves it."""
