"""How often rows of large data frames repeat, and such frames with each row once.

All rows with some keys are looked at, chosen by a hash: keys that repeat are then seen as often as they are there.
"""

from __future__ import annotations

from typing import Any

from viewlet.changes import MULTIPLICITY
from viewlet.spark.run.java import job_description
from viewlet.spark.run.load.table_frame import expected_bytes, is_cheap_to_read_again

SAMPLED_KEYS, BYTES_OF_ROW = 1 << 14, 8
"""How many keys are looked at, about, and how little a row is taken to need."""
COUNT_FROM_BYTES = 4 << 20
"""From so much on, looking at rows takes less than sending them to Python may; rows that repeat need few bytes."""
COUNT_SHARE = 0.125
"""How many different rows there are for each row, at most, where Spark counts equal ones before it sends them."""
FIRST_ROWS, FIRST_SHARE = 1 << 16, 0.99
"""So many rows tell of most frames whose rows are all different that they are, without reading the others."""
_COMPARED = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "date", "timestamp_ntz")
"""Types whose values mean the same where Spark takes them for equal; strings with a collation are of others."""


def keys_per_row(keys: Any, expected: int) -> float:
    """How many different rows a frame of so many bytes has for each of its rows, about."""
    from pyspark.sql import functions as f

    among = 1 << max(0, (expected // BYTES_OF_ROW // SAMPLED_KEYS).bit_length())
    return _different(keys.select(f.xxhash64(*keys.columns).alias("h")).where(f"h & {among - 1} = 0"))


def _first_keys_per_row(keys: Any) -> float:
    from pyspark.sql import functions as f

    return _different(keys.limit(FIRST_ROWS).select(f.xxhash64(*keys.columns)))


def _different(hashes: Any) -> float:
    """The share of different ones; 0 if there is none, as where keys are few and none of them was chosen."""
    with job_description(hashes.sparkSession.sparkContext, "look at keys"):
        found = hashes.toArrow().column(0)
    return len(found.unique()) / len(found) if len(found) else 0.0


def counted_rows(frame: Any) -> Any | None:
    """The rows of a large frame, each once, with their numbers in the last column; None unless they repeat a lot.

    Zeros of both signs are one value, as they are in tables, which have no NaN.
    """
    types = [field.dataType.simpleString() for field in frame.schema.fields]
    if not types or not all(each in _COMPARED or each.startswith("decimal") for each in types):
        return None
    expected = expected_bytes(frame)
    if expected < COUNT_FROM_BYTES or not is_cheap_to_read_again(frame):
        return None
    if _first_keys_per_row(frame) > FIRST_SHARE or keys_per_row(frame, expected) > COUNT_SHARE:
        return None
    return frame.groupBy(*frame.columns).count().withColumnRenamed("count", MULTIPLICITY)
