"""Tiny TPC-H databases whose values crowd around the constants of the queries.

The official generator needs thousands of rows before a selective query has an answer. A test that compares views after
every single-row batch needs a few hundred rows on which *every* query has one, and a changing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import TypeVar

from workloads.streams import Database, Row

T = TypeVar("T")

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS: tuple[tuple[str, int], ...] = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4),
    ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
SUPPLIER_NATIONS = ("FRANCE", "GERMANY", "CANADA", "SAUDI ARABIA", "CHINA", "BRAZIL", "SAUDI ARABIA", "CHINA")
CUSTOMER_NATIONS = ("FRANCE", "GERMANY", "CHINA", "BRAZIL", "CHINA", "CANADA")
SUPPLIER_COMMENTS = ("quick Customer slow Complaints", "Customer Recommends", "sleep furiously")
PART_NAMES = ("forest green almond", "forest khaki", "dark green rose", "navy peach")
PART_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BRUSHED BRASS", "MEDIUM POLISHED TIN", "STANDARD PLATED BRASS")
PART_PACKAGES = (
    ("Brand#12", "SM BOX"), ("Brand#23", "MED BOX"), ("Brand#23", "MED BOX"), ("Brand#34", "LG CASE"),
    ("Brand#45", "JUMBO JAR"),
)  # fmt: skip
PART_SIZES = (3, 15, 15, 15, 3, 9, 49)
PHONE_CODES = ("13", "31", "23", "29", "30", "18", "17", "11", "25")
SEGMENTS = ("BUILDING", "BUILDING", "AUTOMOBILE")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")
ORDER_COMMENTS = ("special packages requests", "the special requests", "carefully regular", "requests special")
ORDER_DATES = (date(1993, 7, 1), date(1993, 10, 1), date(1994, 1, 1), date(1995, 1, 1), date(1996, 10, 1))
SHIP_DATES = (date(1994, 1, 1), date(1994, 8, 1), date(1995, 3, 16), date(1995, 9, 1), date(1996, 1, 1))
LATEST_SHIP_DATE = date(1998, 11, 1)
SHIP_MODES = ("MAIL", "SHIP", "AIR", "AIR", "AIR REG", "RAIL")
INSTRUCTIONS = ("DELIVER IN PERSON", "DELIVER IN PERSON", "TAKE BACK RETURN")
QUANTITIES = (1, 2, 5, 10, 11, 15, 20, 24, 30, 48, 50)
BIG_ORDER_LINES = 7
"""Lines of nearly fifty pieces each that an order needs to pass the 300 of the large-volume query."""


def small_database(seed: int, size: float = 1.0) -> Database:
    """A database of about 100 line items (at size 1); the same seed gives the same rows."""
    return _SmallTpch(Random(seed), size).build()


class _SmallTpch:
    def __init__(self, random: Random, size: float) -> None:
        self.random = random
        self.suppliers = self._count(8, size)
        self.parts = self._count(12, size)
        self.customers = self._count(15, size)
        self.orders = self._count(40, size)

    def build(self) -> Database:
        partsupp = self._partsupp()
        orders = [self._order(key) for key in range(1, self.orders + 1)]
        return {
            "region": [(key, name, "comment") for key, name in enumerate(REGIONS)],
            "nation": [(key, name, region, "comment") for key, (name, region) in enumerate(NATIONS)],
            "supplier": [self._supplier(key) for key in range(1, self.suppliers + 1)],
            "part": [self._part(key) for key in range(1, self.parts + 1)],
            "partsupp": partsupp,
            "customer": [self._customer(key) for key in range(1, self.customers + 1)],
            "orders": orders,
            "lineitem": [line for order in orders for line in self._lines(order, partsupp)],
        }

    @staticmethod
    def _count(base: int, size: float) -> int:
        return max(2, round(base * size))

    def _one_of(self, values: Sequence[T]) -> T:
        return values[self.random.randrange(len(values))]

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(self.random.randint(low * 100, high * 100)).scaleb(-2)

    def _near(self, base: date, days: int) -> date:
        return base + timedelta(days=self.random.randrange(days))

    def _nation(self, names: Sequence[str], key: int) -> int:
        """Go round the names first, so that even two suppliers are of different nations."""
        name = names[key % len(names)] if self.random.random() < 0.85 else self._one_of(names)
        return next(number for number, (nation, _) in enumerate(NATIONS) if nation == name)

    def _phone(self) -> str:
        return f"{self._one_of(PHONE_CODES)}-{self.random.randint(100, 999)}-555-0100"

    def _supplier(self, key: int) -> Row:
        nation = self._nation(SUPPLIER_NATIONS, key)
        comment = self._one_of(SUPPLIER_COMMENTS)
        return (key, f"Supplier#{key:09}", f"street {key}", nation, self._phone(), self._money(-10, 90), comment)

    def _part(self, key: int) -> Row:
        brand, container = PART_PACKAGES[key % len(PART_PACKAGES)]
        name, kind = self._one_of(PART_NAMES), PART_TYPES[(key // 2) % len(PART_TYPES)]
        size = PART_SIZES[key % len(PART_SIZES)]
        return (key, name, "Manufacturer#1", brand, kind, size, container, self._money(900, 999), "comment")

    def _partsupp(self) -> list[Row]:
        suppliers = range(1, self.suppliers + 1)
        return [
            (part, supplier, self.random.randint(5, 80), self._money(1, 5), "comment")
            for part in range(1, self.parts + 1)
            for supplier in self.random.sample(suppliers, k=min(4, self.suppliers))
        ]

    def _customer(self, key: int) -> Row:
        nation = self._nation(CUSTOMER_NATIONS, key)
        balance, segment = self._money(-100, 900), self._one_of(SEGMENTS)
        return (key, f"Customer#{key:09}", f"road {key}", nation, self._phone(), balance, segment, "comment")

    def _order(self, key: int) -> Row:
        customer = 1 + key % max(1, self.customers * 2 // 3)
        placed = self._near(self._one_of(ORDER_DATES), 90)
        status, total = self._one_of("FFO"), self._money(100, 999)
        priority, comment = self._one_of(PRIORITIES), self._one_of(ORDER_COMMENTS)
        return (key, customer, status, total, placed, priority, "Clerk#1", self.random.randrange(2), comment)

    def _lines(self, order: Row, partsupp: list[Row]) -> list[Row]:
        key = order[0]
        assert isinstance(key, int)
        big = key <= 2
        count = BIG_ORDER_LINES if big else self.random.choice((1, 1, 2, 2, 3, 4))
        return [self._line(key, number, self._one_of(partsupp), big) for number in range(1, count + 1)]

    def _line(self, order: int, number: int, pair: Row, big: bool) -> Row:
        quantity = Decimal(self.random.randint(44, 50) if big else self._one_of(QUANTITIES))
        price, discount, tax = self._money(10, 99), Decimal(self.random.randint(3, 8)).scaleb(-2), Decimal("0.02")
        late = self.random.random() < 0.1
        shipped = self._near(LATEST_SHIP_DATE, 40) if late else self._near(self._one_of(SHIP_DATES), 25)
        committed = shipped + timedelta(days=self.random.randint(-3, 12))
        received = committed + timedelta(days=self.random.randint(-4, 6))
        flag, line_status = self._one_of("RRAN"), self._one_of("OF")
        return (
            order, pair[0], pair[1], number, quantity, price, discount, tax, flag, line_status,
            shipped, committed, received, self._one_of(INSTRUCTIONS), self._one_of(SHIP_MODES), "comment",
        )  # fmt: skip
