"""CONTRIBUTING.md's glossary: each term has one meaning, and the code uses no other word for it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from tests.docs.documents import PACKAGE, ROOT

TABLE = (ROOT / "CONTRIBUTING.md").read_text().partition("| term |")[2].partition("\n\n")[0]


@cache
def modules_by_name() -> Mapping[str, ast.Module]:
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


MIRRORS = ("aio.",)
"""sublet.aio has the names of the plain API on purpose."""

SHARED_NAMES: Mapping[str, str] = {
    "Delivery": "sublet.testing's is public; pull's is internal",
    "Fault": "the simulation's faults, and a record whose content raises",
    "Producer": "sublet.Producer, which programs use, and the simulation's",
    "Record": "sublet.Record is public; the KPL names its message so",
    "Records": "as Record",
    "Stream": "the port, and sublet.Stream, which programs use",
}
"""Public class names that two modules have, each with the reason."""

SPARK = ("spark.", "pipeline.")
"""Offset and commit are Spark's words."""

KNOWN: Mapping[tuple[str, str], str] = {
    ("errors", "offset"): "an error of a Spark query",
    ("protocol.large_aggregate", "offset"): "of bytes",
}
"""Avoided words in a module's name or header, by module and word, each with the reason."""


class Row(NamedTuple):
    terms: tuple[str, ...]
    meaning: str
    avoided: tuple[str, ...]


def _row(line: str) -> Row:
    terms, meaning, _, avoided = (cell.strip() for cell in line.strip("|").split("|"))
    return Row(tuple(terms.split(", ")), meaning, tuple(word for word in avoided.split(", ") if word))


ROWS = [_row(line) for line in TABLE.splitlines()[2:]]
AVOIDED = {word for row in ROWS for word in row.avoided}


def test_each_term_has_one_row_and_a_meaning() -> None:
    terms = [term for row in ROWS for term in row.terms]
    assert len(terms) == len(set(terms)) >= 40
    assert all(row.meaning for row in ROWS)
    assert AVOIDED
    assert set(terms) & AVOIDED == set()


def test_no_two_modules_have_a_public_class_of_one_name() -> None:
    modules = defaultdict(list)
    for name, tree in modules_by_name().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not name.startswith(MIRRORS):
                modules[node.name].append(name)
    assert {name: where for name, where in modules.items() if len(where) > 1}.keys() == SHARED_NAMES.keys()


def test_no_module_has_an_avoided_word_in_its_name_or_header() -> None:
    found = {(name, word) for name, tree in modules_by_name().items() for word in AVOIDED if _has(name, tree, word)}
    assert found == KNOWN.keys()


def _has(name: str, tree: ast.Module, word: str) -> bool:
    if word in ("offset", "commit") and name.startswith(SPARK):
        return False
    header = " ".join((ast.get_docstring(tree) or "").split())
    text = " ".join([*re.split(r"[._]", name), header])
    return re.search(rf"\b{re.escape(word)}s?\b", text, re.IGNORECASE) is not None
