"""Throughput, memory, compile time and growth of the compiled engine, next to its rivals; see README.md."""
