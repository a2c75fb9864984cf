"""Structured Streaming as a source of partitioned streams: what `foreachBatch` calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class BatchSink(Protocol):
    """A connection, as far as it takes batches."""

    def apply(self, batch: dict[str, object], *, batch_id: int | None = None, source: str = "") -> int: ...


def foreach_batch(db: BatchSink, stream: str, source: str = "") -> Callable[[Any, int], None]:
    """A function for `foreachBatch` that applies micro-batches to a stream, each once.

    `frame.writeStream.foreachBatch(foreach_batch(db, "packets")).option("checkpointLocation", folder).start()`. A batch
    that Spark repeats after a failure is known by its number and by `source`, which names the streaming query.
    """

    def apply(frame: Any, number: int) -> None:
        db.apply({stream: frame}, batch_id=number, source=source or f"stream {stream}")

    return apply
