"""Base tables: the schema, the rows of those that keep them, and the checks that a change has to pass.

A change is checked before anything happens: it deletes only rows that are there, leaves no primary key twice, and
inserts into a static table only before views read it.
"""

from viewlet.tables.base_table import BaseTable, KeptRows
from viewlet.tables.store import TableStore

__all__ = ["BaseTable", "KeptRows", "TableStore"]
