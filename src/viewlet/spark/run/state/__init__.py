"""State: the nodes of units in every partition, in the right version; the checkpoint directory."""
