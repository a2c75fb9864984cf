"""Row patterns over streams (`MATCH_RECOGNIZE` of SQL:2016): the language, the search, and its maintenance.

definition.py    what a match is: variables and their conditions, measures, where the search continues
row_pattern.py   patterns, and the program that the search runs
conditions.py    conditions that read the rows of the match so far
search.py        the first match in the order of preferment, from every row where a match may begin
measures.py      what a match shows
rows.py          the rows of groups in their order, with conditions and values that depend on rows alone
matcher.py       matches kept over the parts of a stream, from the points where the search has to resume
"""
