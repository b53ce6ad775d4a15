"""Code in the documents that needs Spark or AWS: it parses, and its imports and options exist."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

import pytest
from sublet.spark.option_table import OPTIONS

from tests.docs.documents import CURRENT, blocks, name_of

PROGRAMS = [
    pytest.param(block.text, id=f"{name_of(document)} {block.text.splitlines()[0][:40]}")
    for document in CURRENT
    for block in blocks(document)
    if block.language in ("", "python")
]
SPARKS_OWN = {"path", "checkpointLocation"}


def imported(program: ast.Module) -> Iterator[tuple[str, str]]:
    """Names imported from sublet, with their modules."""
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sublet":
            yield from ((node.module, alias.name) for alias in node.names)


def options(program: ast.Module) -> Iterator[str]:
    for node in ast.walk(program):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "option":
            yield str(ast.literal_eval(node.args[0]))


@pytest.mark.parametrize("text", PROGRAMS)
def test_program_imports_public_names_and_uses_known_options(text: str) -> None:
    program = ast.parse(text)
    for module, name in imported(program):
        assert name in import_module(module).__all__, f"{module}.{name}"
    assert set(options(program)) <= {option.name for option in OPTIONS} | SPARKS_OWN
