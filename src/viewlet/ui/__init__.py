"""A local page that shows a database: its graph, figures that change, rows, and a box for queries (docs/ui.md).

`server` is the HTTP server and everything that protects it; `figures`, `listings`, `queries` and `messages` are what it
answers with; `subject` is the database, which another process may be writing. The page is in `static`.
"""
