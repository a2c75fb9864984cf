"""Engines and kinds of views: the contract that every engine meets, the table of kinds, and the choice of an engine."""
