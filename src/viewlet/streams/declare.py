"""The Python form of a view delta function: the statement that declares it."""

from __future__ import annotations

import re

_INDEX = re.compile(r"\bi\b(?=[^\[\]]*\])")


def view_statement(name: str, initialize: str, update: str | None, length: int | None, start: str | None) -> str:
    """`CREATE VIEW name AS INITIALIZE name[i] ... UPDATE name[j] ...`; without `update`, it is INITIALIZE's query.

    >>> print(view_statement("v", "SELECT * FROM s[i*2 .. i*2+1]", None, 120, None))
    CREATE VIEW "v" AS
    INITIALIZE "v"[i] AS SELECT * FROM s[i*2 .. i*2+1]
    UPDATE "v"[j] AS SELECT * FROM s[j*2 .. j*2+1]
    PARTITION LENGTH 120
    """
    quoted = '"' + name.replace('"', '""') + '"'
    since = "" if start is None else " FROM TIMESTAMP '" + start.replace("'", "''") + "'"
    later = _INDEX.sub("j", initialize) if update is None else update
    ending = "" if length is None else f"\nPARTITION LENGTH {length}"
    return (
        f"CREATE VIEW {quoted} AS\nINITIALIZE {quoted}[i]{since} AS {initialize}\nUPDATE {quoted}[j] AS {later}{ending}"
    )
