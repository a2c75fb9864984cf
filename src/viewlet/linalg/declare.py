"""The statement that declares a view over a matrix program."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.linalg.errors import ProgramError
from viewlet.linalg.program import Program


def view_statement(name: str, program: Program, output: str | None, tables: Mapping[str, str]) -> str:
    """CREATE MATERIALIZED VIEW for one output of a program; `tables` has the table or view of each input."""
    if not isinstance(program, Program):
        raise ProgramError(f"a matrix program is made by linalg.program(...), not a {type(program).__name__}")
    if output is None:
        if len(program.outputs) != 1:
            raise ProgramError(f"say which output the view has, output=...: {', '.join(program.outputs)}")
        (output,) = program.outputs
    names = [each.name for each in program.inputs]
    if missing := [each for each in names if each not in tables]:
        raise ProgramError(f"input {missing[0]!r} needs a table or view: {missing[0]}='name'")
    if unknown := [each for each in tables if each not in names]:
        raise ProgramError(f"the program has no input {unknown[0]!r}, only {', '.join(names)}")
    arguments = [_string(program.text()), _string(output), *(_identifier(tables[each]) for each in names)]
    return f"CREATE MATERIALIZED VIEW {_identifier(name)} AS SELECT * FROM matrix_program({', '.join(arguments)})"


def _string(text: str) -> str:
    return "'" + text.replace("\n", " ").replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
