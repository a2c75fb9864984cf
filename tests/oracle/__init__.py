"""Every view compared with DuckDB's answer to the same query over the same rows, after every batch."""
