"""CONTRIBUTING.md's glossary: each term once, with one meaning."""

from __future__ import annotations

from typing import NamedTuple

from tests.docs.documents import ROOT

TABLE = (ROOT / "CONTRIBUTING.md").read_text().partition("| term |")[2].partition("\n\n")[0]


class Row(NamedTuple):
    terms: tuple[str, ...]
    meaning: str
    avoided: tuple[str, ...]


def _row(line: str) -> Row:
    terms, meaning, _, avoided = (cell.strip() for cell in line.strip("|").split("|"))
    return Row(tuple(terms.split(", ")), meaning, tuple(word for word in avoided.split(", ") if word))


ROWS = [_row(line) for line in TABLE.splitlines()[2:]]


def test_each_term_has_one_row_and_a_meaning() -> None:
    terms = [term for row in ROWS for term in row.terms]
    assert len(terms) == len(set(terms)) >= 40
    assert all(row.meaning for row in ROWS)


def test_no_term_is_avoided_in_another_row() -> None:
    assert {term for row in ROWS for term in row.terms} & {
        word for row in ROWS for word in row.avoided
    } == set()
