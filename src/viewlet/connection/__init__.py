"""The facade: tables are declared and changed, views are declared and read, all through one `Connection`."""

from __future__ import annotations

from viewlet.connection.facade import Connection, connect

__all__ = ["Connection", "connect"]
