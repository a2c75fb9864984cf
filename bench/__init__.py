"""Throughput, memory, compile time and growth of the compiled engine, next to its rivals; see README.md."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is loaded: measurements are of one thread
