"""Definitions of stored views as SQL, for hosts that evaluate them over all rows at once: Spark SQL and DuckDB."""
