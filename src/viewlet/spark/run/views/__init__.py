"""Units as the engines of views: how the results are read."""
