"""Each document opens with what it answers, and its lines are short enough to read a diff."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, name_of

LINE_MAX = 130

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)


@every_document
def test_lines_are_short_enough_to_read_a_diff(document: Path) -> None:
    """But the rows of a table, which Markdown does not let go on in the next line."""
    lines = enumerate(document.read_text().splitlines(), 1)
    assert [number for number, line in lines if len(line) > LINE_MAX and not line.startswith("|")] == []


@every_document
def test_document_opens_with_a_paragraph(document: Path) -> None:
    """Right after its only title: not with a contents, a table, a list or code."""
    title, opening, *_ = re.split(r"\n{2,}", document.read_text())
    assert re.fullmatch(r"# .+", title)
    assert re.match(r"[A-Z`]", opening)
