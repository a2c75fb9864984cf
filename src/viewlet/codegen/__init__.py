"""Trigger programs as compiled functions over flat arrays."""
