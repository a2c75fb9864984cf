"""A grammar of SQL: random queries that are type-correct by construction, over small tables whose values collide.

`choices` decides, `values` are the tables and rows, `families` the types, `scalars` and `predicates` the expressions,
`aggregates` the aggregates, `sources` what stands in FROM, `queries` the rest.
"""
