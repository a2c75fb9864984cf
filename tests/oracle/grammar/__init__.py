"""A grammar of SQL: random queries that are type-correct by construction, over small tables whose values collide.

`choices` decides, `values` are the tables and rows, `scalars` the expressions and predicates, `queries` the rest.
"""
