"""A retailer's stock: a fact relation with three dimensions, one of them in two steps; 43 attributes in all.

The schema of the experiments of "Incremental View Maintenance with Triple Lock Factorization Benefits" (M. Nikolic and
D. Olteanu), with made-up numbers: Inventory joins Item on the product, Weather on location and date, Location on the
location, and that Census on the zip code.
"""

from __future__ import annotations

from random import Random

from workloads.skew import Skewed
from workloads.streams import Database, Row

RELATIONS: dict[str, tuple[str, ...]] = {
    "Inventory": ("locn", "dateid", "ksn", "inventoryunits"),
    "Item": ("ksn", "subcategory", "category", "categorycluster", "prize"),
    "Weather": ("locn", "dateid", "rain", "snow", "maxtemp", "mintemp", "meanwind", "thunder"),
    "Location": (
        "locn", "zip", "rgn_cd", "clim_zn_nbr", "tot_area_sq_ft", "sell_area_sq_ft", "avghhi", "supertargetdistance",
        "supertargetdrivetime", "targetdistance", "targetdrivetime", "walmartdistance", "walmartdrivetime",
        "walmartsupercenterdistance", "walmartsupercenterdrivetime",
    ),
    "Census": (
        "zip", "population", "white", "asian", "pacific", "blackafrican", "medianage", "occupiedhouseunits",
        "houseunits", "families", "households", "husbwife", "males", "females", "householdschildren", "hispanic",
    ),
}  # fmt: skip
ATTRIBUTES = tuple(dict.fromkeys(name for schema in RELATIONS.values() for name in schema))


def retailer_database(seed: int, scale: float = 1.0, skew: float = 0.0) -> Database:
    """About 100,000 rows of Inventory at scale 1; with a skew, some products and places are met far more often."""
    random = Random(seed)
    places, days, products = (_count(base, scale ** (1 / 3)) for base in (20, 30, 500))
    zips = max(2, places * 3 // 4)
    place, day, item = (Skewed(random, count, skew) for count in (places, days, products))
    stock = {(place(), day(), item()) for _ in range(_count(100_000, scale))}
    return {
        "Inventory": [(*key, random.randint(0, 500)) for key in sorted(stock)],
        "Item": [_item(random, key) for key in range(products)],
        "Weather": [_weather(random, where, when) for where in range(places) for when in range(days)],
        "Location": [_location(random, where, random.randrange(zips)) for where in range(places)],
        "Census": [_census(random, code) for code in range(zips)],
    }


def _count(base: int, scale: float) -> int:
    return max(2, round(base * scale))


def _item(random: Random, key: int) -> Row:
    return (key, random.randint(1, 60), random.randint(1, 12), random.randint(1, 5), random.randint(50, 9_999) / 100)


def _weather(random: Random, where: int, when: int) -> Row:
    low = random.randint(-10, 25)
    wet, wind = (random.randint(0, 1), random.randint(0, 1)), random.randint(0, 400) / 10
    return (where, when, *wet, low + random.randint(0, 15), low, wind, random.randint(0, 1))


def _location(random: Random, where: int, code: int) -> Row:
    distances = (random.randint(1, 900) / 10 for _ in RELATIONS["Location"][7:])
    area = random.randint(20_000, 90_000)
    return (where, code, random.randint(1, 9), random.randint(1, 7), area, area * 3 // 4, 51_000.5, *distances)


def _census(random: Random, code: int) -> Row:
    return (code, *(random.randint(100, 40_000) for _ in RELATIONS["Census"][1:]))
