"""What earlier versions wrote, in the form of this one.

Records of declarations have kept their kinds and keys. Of a snapshot, the catalogue has changed:

| until                   | in            | missing                                                                 |
|-------------------------|---------------|-------------------------------------------------------------------------|
| hosts had one catalogue | a directory   | the version that declared a view: it is the snapshot's                  |
| hosts had one catalogue | a checkpoint  | the streams that have received rows: the manifest names them (`STARTED`)|
"""

from __future__ import annotations

from viewlet.engine.catalogue_json import Json


def catalogue_of(facts: Json) -> Json:
    """The catalogue in the facts of a snapshot.

    >>> catalogue_of({"version": "0", "epoch": 7, "tables": [{"name": "t"}], "views": [{"name": "v"}]})["views"]
    [{'version': '0', 'name': 'v'}]
    """
    tables = [{"started": False, **table} for table in facts["tables"]]
    views = [{"version": facts["version"], **view} for view in facts["views"]]
    return {**facts, "tables": tables, "views": views}
