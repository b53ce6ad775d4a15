"""CONTRIBUTING.md's glossary: each term has one meaning, and the code uses no other word for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
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


SPARK = ("spark.",)
"""Offset and commit are Spark's words."""

KNOWN: Mapping[tuple[str, str], str] = {
    ("aws.kinesis.repeated_call", "digest"): "of a signature",
    ("aws.push.push_connection", "bundle"): "of certificates",
    ("aws.push.push_requests", "bundle"): "of certificates",
    ("aws.stepfunctions", "digest"): "of a name that is too long",
    ("aws.tables.worker_reports", "coordinator"): "KCL's name of a table",
    ("decisions.manager.group_balance", "digest"): "a hash that breaks ties",
    ("decisions.manager.worker_item_json", "offset"): "of a time zone",
    ("errors", "offset"): "an error of a Spark query",
    ("operate.cli.completion", "shift"): "of a shell's words",
    ("operate.aws.snapshots", "digest"): "of a snapshot's parts",
    ("operate.rules.alert_rules", "offset"): "PromQL's word for an earlier moment",
    ("protocol.hash_keys", "digest"): "the MD5 of a partition key",
    ("protocol.protobuf_fields", "shift"): "of bits",
    ("protocol.kpl_format", "digest"): "the MD5 of an aggregate",
    ("protocol.large_aggregate", "offset"): "of bytes",
    ("testing.simulation.ledger", "offset"): "in a batch",
    ("testing.simulation.table_watch", "commit"): "of a write to the table",
}
"""Avoided words in a module's names or sentences, by module and word, each with what it means there."""


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


def test_no_module_says_an_avoided_word() -> None:
    found = {(name, word) for name, tree in modules_by_name().items() for word in AVOIDED if _says(name, tree, word)}
    assert found == KNOWN.keys()


def test_each_place_is_looked_at() -> None:
    for said in (
        '"""The backlog."""',
        "class ShardBacklog: ...",
        "def f(backlog): ...",
        "self.backlog_bytes = 1",
        'log.info("backlog", lag=1)',
        'log.info("lag", backlog=1)',
        'raise E(f"a backlog of {lag}")',
        'REFUSED = "there is a backlog"',
    ):
        assert _says("a", ast.parse(said), "backlog"), said
    assert not _says("a", ast.parse("x = 1  # backlogged"), "backlog")


def _says(name: str, tree: ast.Module, word: str) -> bool:
    """Whether the word is in the module's name, header, identifiers, log lines, errors or other sentences."""
    if word in ("offset", "commit") and name.startswith(SPARK):
        return False
    return re.search(rf"\b{re.escape(word)}s?\b", _all_text(name, tree), re.IGNORECASE) is not None


@cache
def _all_text(name: str, tree: ast.Module) -> str:
    said = " ".join([*re.split(r"[._]", name), ast.get_docstring(tree) or "", *_texts(tree)])
    return " ".join(said.split())


def _texts(tree: ast.Module) -> Iterator[str]:
    docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield _words(name)
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield _words(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield _words(name)
            case ast.Constant(value=str(text)) if " " in text and id(node) not in docstrings:
                yield text
            case ast.Call(
                func=ast.Attribute(attr="info" | "warning" | "error"), args=[ast.Constant(value=str(text)), *_]
            ):
                yield text


def _words(identifier: str) -> str:
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", identifier))
