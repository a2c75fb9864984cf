"""State in flat arrays: hash stores with slices, wide integers, dictionaries of strings."""
