"""The six queries over an order book, every strategy, batches of 1, 10 or 100 changes."""

from __future__ import annotations

import os
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from tests.oracle.oracle import Step, transcript
from tests.oracle.play import BATCH_SIZES, FULL, PLAYED, objections, report
from workloads.finance import QUERIES, TABLES, OrderBook, generated_messages, read_messages
from workloads.streams import batches_of

WARM_UP = 60
"""Messages played as one batch, so that the book is not empty when single changes arrive."""
CHANGES = {1: 30, 10: 150, 100: 500}
FULL_FACTOR = 10
REAL_BOOK = os.environ.get("VIEWLET_ORDER_BOOK", "")


@cache
def steps(batch_size: int, seed: int = 1) -> list[Step]:
    book = OrderBook()
    messages = generated_messages(seed, 100_000)
    first = next(batches_of(book.events(islice(messages, WARM_UP)), 10 * WARM_UP))
    changes = CHANGES[batch_size] * (FULL_FACTOR if FULL else 1)
    batches = batches_of(islice(book.events(messages), changes), batch_size)
    return transcript(TABLES, QUERIES, [first, *batches])


@pytest.mark.parametrize(("strategy", "batch_size"), PLAYED)
def test_views_equal_the_oracle_after_every_batch(strategy: str, batch_size: int) -> None:
    found = objections(TABLES, QUERIES, steps(batch_size), strategy)
    assert not found, report(found)


@pytest.mark.skipif(not REAL_BOOK, reason="set VIEWLET_ORDER_BOOK to a csv of order-book messages")
def test_a_recorded_order_book() -> None:
    # In cents, because the product of two turnovers in hundredths of a cent overflows a BIGINT, in DuckDB too.
    messages = (message._replace(price=message.price // 100) for message in read_messages(Path(REAL_BOOK)))
    events = islice(OrderBook().events(messages), 2_000)
    found = objections(TABLES, QUERIES, transcript(TABLES, QUERIES, batches_of(events, 100)), "auto")
    assert not found, report(found)


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_every_query_has_an_answer_somewhere_in_its_stream(batch_size: int) -> None:
    played = steps(batch_size)
    silent = [query.name for query in QUERIES if not any(step.expected[query.name].answer for step in played)]
    assert not silent
