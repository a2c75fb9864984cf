"""Viewlet on Spark: `plan` compiles trigger programs to distributed ones and needs no JVM."""
