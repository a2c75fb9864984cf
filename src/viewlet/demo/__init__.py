"""The demonstration: views over a small database of orders that stay right while orders come and go.

`viewlet demo` runs it. The modules read in this order: `views` (what is maintained), `data` (what changes), `screen`
(what you see), `check` (what proves it), `run` (how it goes together). Nothing outside this package knows these
queries.
"""
