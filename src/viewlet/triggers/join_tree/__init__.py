"""Join trees of SQL queries: which subtrees of a product become views that the triggers of all tables share."""
