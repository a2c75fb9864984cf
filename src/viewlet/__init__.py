"""Viewlet keeps the answers of SQL views fresh while the data under them changes.

>>> import viewlet
>>> db = viewlet.connect()
>>> db.execute("CREATE TABLE orders (orderkey BIGINT PRIMARY KEY, custkey BIGINT, total DECIMAL(15,2))")
>>> db.execute("CREATE MATERIALIZED VIEW spend AS SELECT custkey, SUM(total) AS total FROM orders GROUP BY custkey")
>>> db.insert("orders", [(1, 7, "10.50"), (2, 7, "4.50")])
1
>>> db.view("spend").rows()
[(7, Decimal('15.00'))]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viewlet.changes.product_change import as_products, product
    from viewlet.connection import Connection, connect
    from viewlet.connection.spark_format import register_format
    from viewlet.errors import (
        ConstraintError,
        DataError,
        InternalError,
        MissingExtraError,
        SchemaError,
        SqlError,
        StateError,
        UnsupportedError,
        ViewletError,
    )
    from viewlet.hosts.feeds import changes_of
    from viewlet.spark.run.java import spark_session
    from viewlet.view import View

__version__ = "0.1.0"

__all__ = [
    "Connection",
    "ConstraintError",
    "DataError",
    "InternalError",
    "MissingExtraError",
    "SchemaError",
    "SqlError",
    "StateError",
    "UnsupportedError",
    "View",
    "ViewletError",
    "__version__",
    "as_products",
    "changes_of",
    "connect",
    "product",
    "register_format",
    "spark_session",
]

_HOMES = {
    "connect": "viewlet.connection",
    "Connection": "viewlet.connection",
    "View": "viewlet.view",
    "as_products": "viewlet.changes.product_change",
    "product": "viewlet.changes.product_change",
    "changes_of": "viewlet.hosts.feeds",
    "register_format": "viewlet.connection.spark_format",
    "spark_session": "viewlet.spark.run.java",
}


def __getattr__(name: str) -> Any:
    """Finds a public name when it is first used, so that `import viewlet` itself loads nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'viewlet' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "viewlet.errors")), name)
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """Adds the magic %%viewlet to a notebook: what `%load_ext viewlet` calls."""
    from viewlet.shell.notebook import register

    register(ipython)


def __dir__() -> list[str]:
    return sorted(__all__)
