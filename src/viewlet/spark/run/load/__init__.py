"""Data frames as sources, and initial loads by Spark SQL."""
