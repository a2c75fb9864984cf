"""House prices: six relations that join on the postcode, 27 attributes in all.

The schema of the experiments of "Learning Linear Regression Models over Factorized Joins" (M. Schleich, D. Olteanu and
R. Ciucanu), which F-IVM uses too, with made-up numbers. At scale s a postcode has s houses, shops and restaurants and
one row of each other relation: the relations grow with s, their join with its cube.
"""

from __future__ import annotations

from random import Random

from workloads.skew import Skewed
from workloads.streams import Database, Row

RELATIONS: dict[str, tuple[str, ...]] = {
    "House": (
        "postcode", "livingarea", "price", "nbbedrooms", "nbbathrooms", "kitchensize", "house", "flat", "unknown",
        "garden", "parking",
    ),
    "Shop": ("postcode", "openinghoursshop", "pricerangeshop", "sainsburys", "tesco", "ms"),
    "Institution": ("postcode", "typeeducation", "sizeinstitution"),
    "Restaurant": ("postcode", "openinghoursrest", "pricerangerest"),
    "Demographics": ("postcode", "averagesalary", "crimesperyear", "unemployment", "nbhospitals"),
    "Transport": ("postcode", "nbbuslines", "nbtrainstations", "distancecitycentre"),
}  # fmt: skip
ATTRIBUTES = tuple(dict.fromkeys(name for schema in RELATIONS.values() for name in schema))
GROWING = ("House", "Shop", "Restaurant")
POSTCODES = 25_000
"""As many as in the original, at every scale."""


def housing_database(seed: int, scale: int = 1, postcodes: int = POSTCODES, skew: float = 0.0) -> Database:
    """Rows of all relations; with a skew, some postcodes have more of the growing relations than others."""
    random = Random(seed)
    pick = Skewed(random, postcodes, skew)

    def homes(name: str) -> list[int]:
        if name not in GROWING:
            return list(range(postcodes))
        return [pick() if skew else i % postcodes for i in range(postcodes * scale)]

    return {name: [_row(random, name, home) for home in homes(name)] for name in RELATIONS}


def _row(random: Random, name: str, postcode: int) -> Row:
    if name != "House":
        return (postcode, *(random.randint(0, 50) for _ in RELATIONS[name][1:]))
    area, bedrooms = random.randint(40, 250), random.randint(1, 6)
    kind = random.randrange(3)
    price = area * random.randint(2_000, 4_000) / 100 + bedrooms * 25.5
    kinds = tuple(int(i == kind) for i in range(3))
    extras = (random.randint(0, 1), random.randint(0, 2))
    return (postcode, area, round(price, 2), bedrooms, random.randint(1, 4), random.randint(5, 30), *kinds, *extras)
