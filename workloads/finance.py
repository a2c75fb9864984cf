"""Algorithmic trading: an order book as two tables, six queries over it, and two sources of changes.

A partial execution arrives as a delete of the order and an insert of what is left of it, which makes the book a stream
with nearly as many deletes as inserts.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from workloads.query import NamedQuery
from workloads.streams import Event, Row

BROKERS = 10

TABLES: dict[str, str] = {
    side: f"""
        CREATE TABLE {side} (
            t BIGINT NOT NULL, id BIGINT NOT NULL, broker_id BIGINT NOT NULL,
            volume BIGINT NOT NULL CHECK (volume >= 0), price BIGINT NOT NULL)"""
    for side in ("bids", "asks")
}

QUERIES: tuple[NamedQuery, ...] = (
    NamedQuery(
        "axf",
        """
SELECT b.broker_id, SUM(a.volume - b.volume) AS axfinder
FROM bids b, asks a
WHERE b.broker_id = a.broker_id
  AND (a.price - b.price > 1000 OR b.price - a.price > 1000)
GROUP BY b.broker_id""",
    ),
    NamedQuery(
        "bsp",
        """
SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) AS bsp
FROM bids x, bids y
WHERE x.broker_id = y.broker_id AND x.t > y.t
GROUP BY x.broker_id""",
    ),
    NamedQuery(
        "bsv",
        """
SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS bsv
FROM bids x, bids y
WHERE x.broker_id = y.broker_id
GROUP BY x.broker_id""",
    ),
    NamedQuery(
        "mst",
        """
SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) AS mst
FROM bids b, asks a
WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1) >
      (SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price)
  AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1) >
      (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price)
GROUP BY b.broker_id""",
    ),
    NamedQuery(
        "psp",
        """
SELECT SUM(a.price - b.price) AS psp
FROM bids b, asks a
WHERE b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1)
  AND a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1)""",
    ),
    NamedQuery(
        "vwap",
        """
SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) >
      (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)""",
    ),
)


class Message(NamedTuple):
    """One line of an order-book log: B and S enter a bid or an ask, E executes a part of one, D and F remove it."""

    t: int
    id: int
    action: str
    volume: int
    price: int


@dataclass(slots=True)
class OrderBook:
    """The orders that are open, so that a message about an order can be turned into changes of its row."""

    open: dict[int, tuple[str, Row]] = field(default_factory=dict)

    def events(self, messages: Iterable[Message]) -> Iterator[Event]:
        """The row changes of each message; messages about unknown orders, and other actions, change nothing."""
        for message in messages:
            match message.action:
                case "B" | "S":
                    yield from self._enter("bids" if message.action == "B" else "asks", message)
                case "E":
                    yield from self._execute(message)
                case "D" | "F":
                    yield from self._leave(message.id)

    def _enter(self, side: str, message: Message) -> Iterator[Event]:
        row = (message.t, message.id, message.id % BROKERS, message.volume, message.price)
        yield from self._leave(message.id)
        self.open[message.id] = side, row
        yield side, row, 1

    def _execute(self, message: Message) -> Iterator[Event]:
        if message.id not in self.open:
            return
        side, row = self.open[message.id]
        t, order, broker, volume, price = row
        assert isinstance(volume, int)
        yield from self._leave(message.id)
        if volume > message.volume:
            rest = (t, order, broker, volume - message.volume, price)
            self.open[message.id] = side, rest
            yield side, rest, 1

    def _leave(self, order: int) -> Iterator[Event]:
        if order in self.open:
            side, row = self.open.pop(order)
            yield side, row, -1


def read_messages(path: Path) -> Iterator[Message]:
    """Messages of a csv or csv.gz file with the columns t, id, action, volume, price; a header line is skipped."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as lines:
        for t, order, action, volume, price in csv.reader(lines):
            if t != "t":
                yield Message(int(t), int(order), action, int(volume), int(price))


def generated_messages(seed: int, count: int, open_orders: int = 40) -> Iterator[Message]:
    """A random walk of prices with orders entering, being executed in part, and leaving.

    About `open_orders` orders are open at a time; prices of the two sides wander far enough apart that every query
    sometimes has an answer.
    """
    random = Random(seed)
    price, known = 10_000, list[int]()
    for t in range(count):
        price = max(2_000, price + random.randint(-400, 400))
        if len(known) < 4 or random.random() < (0.75 if len(known) < open_orders else 0.4):
            known.append(t)
            yield Message(t, t, random.choice("BS"), random.randint(1, 40) * 5, price + random.randint(-900, 900))
        elif random.random() < 0.6:
            yield Message(t, random.choice(known), "E", random.randint(1, 20) * 5, 0)
        else:
            order = known.pop(random.randrange(len(known)))
            yield Message(t, order, random.choice("DF"), 0, 0)
