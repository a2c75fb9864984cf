"""DuckDB in this process: what its queries can reach, and where it puts rows that do not fit into memory.

It runs SQL of users, and reads files that somebody else may have written. So it reaches no other file, no network, no
extension, no setting and no variable of the calling program, unless it is asked for. DuckDB's own locked configuration
enforces this, whatever a query looks like. Rows are spilled to a private folder, which goes with the connection.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from functools import cache
from typing import Any

from viewlet.errors import interruptible
from viewlet.forks import bind_to_process

_SETTINGS = {
    "python_enable_replacements": "false",  # a name in a query is a table, never a variable of the calling program
    "error_on_division_by_zero": "false",  # as in views, a division by zero is NULL, ...
    "ieee_floating_point_ops": "false",  # ... for floats too
    "enable_progress_bar": "false",  # nothing is written to the terminal
}
_CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
}
"""In force before a database file is read."""
_OF_FILES = {"default_block_size": "65536"}
"""Of files that are made: every table takes a block at least, and parts of streams are many small tables."""
_LOCKED = {"enable_external_access": "false", "lock_configuration": "true"}
"""In force once the settings are made, before a query is run."""


def open_duckdb(path: str | None = None, *, read_only: bool = False, external_access: bool = False, **more: str) -> Any:
    """A connection to a database file, or to one in memory; `more` are settings.

    Queries reach the files of this process with `external_access` alone.
    """
    import duckdb

    known = _settings()
    folder = tempfile.mkdtemp(prefix="viewlet-spill-")
    config = {"temp_directory": folder} | ({} if external_access else _CLOSED) | ({} if path is None else _OF_FILES)
    connection: Any = None
    try:
        config = {name: value for name, value in config.items() if name in known}
        connection = duckdb.connect(":memory:" if path is None else path, read_only, config)  # type: ignore[arg-type]
        with interruptible(connection):
            for name, value in (_SETTINGS | more | ({} if external_access else _LOCKED)).items():
                if name in known:
                    connection.execute(f"SET {name} = {value}")
    except BaseException:
        if connection is not None:
            connection.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(connection, _remove, folder, os.getpid())
    bind_to_process(connection)
    return connection


_PATTERN = re.compile(r"[*?\[]")
"""What a path of DuckDB matches other names with."""


def literal_name(path: str) -> str:
    """A full name of a file as DuckDB has to be given it to read this file, whatever characters are in it."""
    return _PATTERN.sub(r"[\g<0>]", path)


@cache
def _settings() -> frozenset[str]:
    """The settings that this version of DuckDB has."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        return frozenset(name for (name,) in connection.execute("SELECT name FROM duckdb_settings()").fetchall())


def _remove(folder: str, owner: int) -> None:
    """Removes the folder of spilled rows, unless this is a fork of the process that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
