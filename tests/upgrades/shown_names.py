"""What a version's documents show its users to import: by name, the documents that show it."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

PACKAGES = ("sublet", "sublet_cdk", "pyspark_sublet")
_PYTHON = re.compile(r"^ *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_ONE_LINE = re.compile(r"from ((?:sublet|sublet_cdk|pyspark_sublet)\b[\w.]*) import \(?(\w+(?:, \w+)*)")
"""Also in prose and in fragments that are no Python by themselves."""

_IN_PROSE = re.compile(r"`(?:@|import )?((?:sublet|sublet_cdk|pyspark_sublet)(?:\.\w+)+)(?:\([^`]*\))?`")

BY_ITS_FILES = {
    "sublet.operate.cli.main:main": ["the console script"],
    "sublet.testing.pytest_plugin": ["pytest's entry point"],
    "sublet.__main__": ["python -m sublet"],
    "sublet.spark.pipeline.__main__": ["python -m sublet.spark.pipeline"],
    "pyspark_sublet": ["Spark's discovery of sources"],
}
"""What the package's own metadata, command lines and Spark name."""


def names_shown(tree: Path) -> dict[str, list[str]]:
    """As `module` or `module:name`, sorted."""
    shown: defaultdict[str, set[str]] = defaultdict(set)
    for document in [tree / "README.md", *sorted((tree / "docs").glob("*.md"))]:
        text = document.read_text()
        sources = [dedent(block) for block in _PYTHON.findall(text)]
        lines = [f"{module}:{name}" for module, names in _ONE_LINE.findall(text) for name in names.split(", ")]
        for name in [*_of_sources(sources), *lines, *_IN_PROSE.findall(text)]:
            shown[name].add(str(document.relative_to(tree)))
    for example in sorted((tree / "examples").rglob("*")):
        for name in _of_sources(_sources_of(example)):
            shown[name].add(str(example.relative_to(tree)))
    return {name: sorted(documents) for name, documents in sorted(shown.items())}


def _sources_of(example: Path) -> list[str]:
    if example.suffix == ".py":
        return [example.read_text()]
    if example.suffix == ".ipynb":
        cells = json.loads(example.read_text())["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return []


def _of_sources(sources: list[str]) -> Iterator[str]:
    for source in sources:
        with suppress(SyntaxError):  # a fragment with `...` for what is left out
            for node in ast.walk(ast.parse(source)):
                yield from _of_node(node)


def _of_node(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names if _is_ours(alias.name))
        case ast.ImportFrom(str(module), names) if _is_ours(module):
            yield from (f"{module}:{alias.name}" for alias in names)
        case ast.Attribute(ast.Name(str(module)), str(name)) if module in PACKAGES:
            yield f"{module}.{name}"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES
