"""Execution of batches: stages, tasks, and the cluster that runs them."""
