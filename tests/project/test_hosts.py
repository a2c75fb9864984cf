"""Hosts are parts of a database, not kinds of it: each has what the contract asks for, and refuses none of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "viewlet"
HOSTS = {"LocalHost": "hosts/local.py", "SparkHost": "hosts/spark.py"}


def class_of(path: str, name: str) -> ast.ClassDef:
    tree = ast.parse((SOURCE / path).read_text())
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def methods(known: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in known.body if isinstance(node, ast.FunctionDef)}


def names(targets: Iterable[ast.expr]) -> Iterator[ast.Name]:
    return (target for target in targets if isinstance(target, ast.Name))


def arguments(method: ast.FunctionDef) -> list[str]:
    return [each.arg for each in method.args.args]


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_has_the_methods_of_the_contract(name: str) -> None:
    asked = {key: each for key, each in methods(class_of("hosts/contract.py", "Host")).items() if key != "catalogue"}
    host = class_of(HOSTS[name], name)
    constant = {target.id for node in host.body if isinstance(node, ast.Assign) for target in names(node.targets)}
    found = methods(host)
    assert constant <= {key for key, each in asked.items() if each.decorator_list}
    wanted = {key: arguments(each) for key, each in asked.items() if key not in constant}
    assert {key: arguments(found[key]) for key in wanted} == wanted


@pytest.mark.parametrize("name", HOSTS)
def test_no_method_of_a_host_only_refuses(name: str) -> None:
    host = class_of(HOSTS[name], name)
    assert not host.bases
    for method in methods(host).values():
        body = [step for step in method.body if not isinstance(step, ast.Expr)]
        assert not (body and isinstance(body[0], ast.Raise)), f"{name}.{method.name}"


def test_nothing_is_a_kind_of_database() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert "Database" not in {ast.unparse(base) for base in node.bases}, f"{path}: {node.name}"
