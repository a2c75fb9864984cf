"""Schemas, queries and data that the tests, the demo and the benchmarks share; independent of the product."""
