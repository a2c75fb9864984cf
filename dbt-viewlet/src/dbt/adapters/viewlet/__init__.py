"""The dbt adapter of Viewlet: models are views that stay up to date, tables and seeds change by their differences."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.viewlet.connections import ViewletConnectionManager, ViewletCredentials
from dbt.adapters.viewlet.impl import ViewletAdapter
from dbt.include import viewlet

__all__ = ["Plugin", "ViewletAdapter", "ViewletConnectionManager", "ViewletCredentials"]

Plugin = AdapterPlugin(
    adapter=ViewletAdapter,  # type: ignore[arg-type]
    credentials=ViewletCredentials,
    include_path=viewlet.PACKAGE_PATH,
)
