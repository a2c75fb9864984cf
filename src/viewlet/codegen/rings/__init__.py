"""View trees over rings as generated code: what `viewtree.ring_engine.MaintainedTree` means, on flat arrays.

    from viewlet.codegen.rings.compiler import compile_tree

    compiled = compile_tree(tree, ring, column_types, updatable=None, database=None, dictionary=None)

`tree` is a `viewtree.ring_tree.ViewTree`, `ring` an `IntegerRing`, `FloatRing`, `DecimalRing`, `VectorRing`, a
`ProductRing` of these, a `CofactorRing` (not exact) or a `RelationalRing`; other rings raise `NotCompilable`, and the
reference engine serves them. `column_types` has the `SqlType` of every variable, `database` rows with multiplicities by
relation.

    compiled.apply({"R": [(row, 1), (row, -1)], ...})                  rows of several relations, all or nothing
    compiled.apply_columns("R", [column, ...], multiplicity)           words: int64, or float64 for REAL and DOUBLE
    compiled.apply_arrow("R", table, multiplicity=None)                an Arrow table, strings coded on the way
    compiled.entries()                                                 row -> payload of the ring, of the result
    compiled.payload                                                   the payload of a result without keys
    compiled.sizes(), compiled.bytes()                                 rows by stored view; bytes of all of them
    compiled.begin(); compiled.commit() or compiled.rollback()         several changes, all or nothing
    compiled.watch(); compiled.take_changed()                          keys of the result that may have changed
    compiled.source                                                    the generated module

Rows hold values as `viewlet.types` says: a DECIMAL is a scaled integer, a DATE a number of days, a VARCHAR a string
(in columns, its code in `compiled.dictionary`). A cofactor sees a DECIMAL as the number it stands for, a sum of
integers as the scaled integer. There are no NULLs. Every error leaves the state as it was.

The rows of a join kept in pieces (`viewtree.factorised.FactorisedResult`) have a compiled form too:

    from viewlet.codegen.rings.factorised import CompiledResult

    result = CompiledResult(tree, column_types, variables=None, updatable=None, dictionary=None)
    result.apply(...), result.apply_columns(...), result.apply_arrow(...), result.count, result.size, result.rows()

Chapters: `plan` (which views are stored, and how a change of a leaf propagates), `forms` and its rings (the layout of
payloads, and the code that multiplies and adds them), `tree_writer` (the module), `compiled_tree` (its life in a
process), `generated_tree` (NULLs, and the engine's side of it).
"""
