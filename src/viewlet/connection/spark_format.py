"""The format `viewlet` for Spark sessions: other jobs read a view of a checkpoint without opening the database."""

from __future__ import annotations

import os
from typing import Any

from viewlet.spark.run.java import require_spark


def register_format(spark: Any) -> None:
    """Makes `spark.read.format("viewlet")` known to a Spark session.

    `spark.read.format("viewlet").option("view", "revenue").load("state")` reads a view, or a table that keeps its rows,
    from a checkpoint directory, whether or not a database has it open. The frame is of the epoch that is the last one
    when `load` is called. Relative paths begin in the folder that this process is in now.
    """
    require_spark()
    from viewlet.connection.stored_view import open_view
    from viewlet.spark.run.views.data_source import source_class

    spark.dataSource.register(source_class(open_view, os.getcwd()))
