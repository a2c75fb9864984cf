"""View trees: one tree of views that the triggers of all tables share.

After "Incremental View Maintenance with Triple Lock Factorization Benefits" (M. Nikolic and D. Olteanu), sections 3
and 4.
"""
