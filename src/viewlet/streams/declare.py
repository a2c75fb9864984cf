"""The Python form of a view delta function: the statement that declares it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from viewlet.errors import SchemaError
from viewlet.visible import described

_INDEX = re.compile(r"\bi\b(?=[^\[\]]*\])")


def view_statement(name: str, initialize: str, update: str | None, length: int | None, start: str | None) -> str:
    """`CREATE VIEW name AS INITIALIZE name[i] ... UPDATE name[j] ...`; without `update`, it is INITIALIZE's query.

    >>> print(view_statement("v", "SELECT * FROM s[i*2 .. i*2+1]", None, 120, None))
    CREATE VIEW "v" AS
    INITIALIZE "v"[i] AS SELECT * FROM s[i*2 .. i*2+1]
    UPDATE "v"[j] AS SELECT * FROM s[j*2 .. j*2+1]
    PARTITION LENGTH 120
    """
    return "CREATE VIEW " + _view_text(name, initialize, update, length, start)


def _view_text(name: str, initialize: str, update: str | None, length: int | None, start: str | None) -> str:
    for what, given in {"name": name, "initialize": initialize, "update": update, "start": start}.items():
        if not isinstance(given, str) and (given is not None or what in ("name", "initialize")):
            raise SchemaError(f"{what} of a stream view is a string, not {described(given)}")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool)):
        raise SchemaError(f"length of a stream view is a whole number of seconds, not {described(length)}")
    quoted = '"' + name.replace('"', '""') + '"'
    since = "" if start is None else " FROM TIMESTAMP '" + start.replace("'", "''") + "'"
    later = _INDEX.sub("j", initialize) if update is None else update
    ending = "" if length is None else f"\nPARTITION LENGTH {length}"
    return f"{quoted} AS\nINITIALIZE {quoted}[i]{since} AS {initialize}\nUPDATE {quoted}[j] AS {later}{ending}"


def views_statement(views: Mapping[str, Mapping[str, Any]]) -> str:
    """`CREATE VIEW a AS INITIALIZE ... UPDATE ..., b AS ...`, of the arguments of each view but for its name.

    >>> print(views_statement({"a": {"initialize": "SELECT x FROM s[i]"}, "b": {"initialize": "SELECT x FROM a[i]"}}))
    CREATE VIEW "a" AS
    INITIALIZE "a"[i] AS SELECT x FROM s[i]
    UPDATE "a"[j] AS SELECT x FROM s[j],
    "b" AS
    INITIALIZE "b"[i] AS SELECT x FROM a[i]
    UPDATE "b"[j] AS SELECT x FROM a[j]
    """
    known = {"initialize": None, "update": None, "length": None, "start": None}
    if not isinstance(views, Mapping) or not all(
        isinstance(given, Mapping) and given.keys() <= known.keys() for given in views.values()
    ):
        raise SchemaError(f"stream views are a dict of names to dicts of {', '.join(known)}, not {described(views)}")
    texts = [_view_text(name, **{**known, **given}) for name, given in views.items()]
    return "CREATE VIEW " + ",\n".join(texts)
