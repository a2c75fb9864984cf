"""Units: what a view is on a cluster, that is its plans, its code, and the nodes that run it in one place."""
