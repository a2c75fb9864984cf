"""View trees over payload rings: one tree of views that the triggers of all relations share.

After "Incremental View Maintenance with Triple Lock Factorization Benefits" (M. Nikolic and D. Olteanu), sections 3
to 6.
"""
