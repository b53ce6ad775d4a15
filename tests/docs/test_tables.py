"""The documents' tables are what the code makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tables import DOCUMENTS, TABLES, with_tables


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_tables_are_current(document: Path) -> None:
    text = document.read_text()
    assert text == with_tables(text), "run: python -m docs.tables"


@pytest.mark.parametrize("name", TABLES)
def test_each_table_is_in_one_document(name: str) -> None:
    having = [document for document in DOCUMENTS if f"<!-- {name} -->" in document.read_text()]
    assert len(having) == 1
    assert f"<!-- /{name} -->" in having[0].read_text()
