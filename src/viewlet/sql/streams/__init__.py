"""Statements about partitioned streams, and queries over their parts: view delta functions, windows and patterns."""
