"""Time-partitioned stream views (ViewDF): views over parts of streams, each kept by a query for its next part.

    CREATE STREAM packets (...) PARTITION LENGTH 60 BY ts      part i: the rows of minute i since 1970
    CREATE VIEW hourly AS INITIALIZE ... UPDATE ...            part j of the view, from parts of what it reads

`definition.py` has the language, `maintainer.py` runs it, `host.py` is what it asks of the database that holds the
parts. Source: Yang, Golab, Ozsu, "ViewDF: Declarative Incremental View Maintenance for Streaming Data".
"""

from viewlet.streams.definition import PartQuery, PartView, Reference
from viewlet.streams.duckdb_host import DuckDBHost
from viewlet.streams.host import PartHost
from viewlet.streams.new_parts import Updates
from viewlet.streams.postgres_host import PostgresHost
from viewlet.streams.spark_sql_host import SparkSqlHost
from viewlet.streams.structured_streaming import foreach_batch
from viewlet.streams.warehouse import PartInfo, Warehouse

__all__ = [
    "DuckDBHost",
    "PartHost",
    "PartInfo",
    "PartQuery",
    "PartView",
    "PostgresHost",
    "Reference",
    "SparkSqlHost",
    "Updates",
    "Warehouse",
    "foreach_batch",
]
