"""The documents' tables match the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import keywords
from docs.reference import MEMBER, SHOWN
from docs.tables import DOCUMENTS, LONG, TABLES, with_tables


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_tables_are_current(document: Path) -> None:
    """But the stories, whose cells `tests/alarms/test_stories.py` compares with what it has simulated anyway."""
    text = document.read_text()
    assert text == with_tables(text, but=("stories", "stories of lean")), "run: python -m docs.tables"


def test_the_settings_as_keyword_arguments_are_current() -> None:
    assert keywords.FILE.read_text() == keywords.keywords(), "run: python -m docs.tables"


@pytest.mark.parametrize("name", TABLES)
def test_each_table_is_in_one_document(name: str) -> None:
    having = [document for document in DOCUMENTS if f"<!-- {name} -->" in document.read_text()]
    assert len(having) == 1
    assert f"<!-- /{name} -->" in having[0].read_text()


@pytest.mark.parametrize("document", DOCUMENTS[1:], ids=lambda document: document.name)
def test_a_long_page_has_its_contents_at_the_top(document: Path) -> None:
    text = document.read_text()
    if len(text.splitlines()) > LONG:
        assert "<!-- contents -->" in text.partition("\n## ")[0]


@pytest.mark.parametrize("shown", [shown for shown, _ in SHOWN[:4]], ids=lambda shown: shown.__name__)
def test_reference_shows_each_public_member_that_a_program_uses(shown: type) -> None:
    """Members without a docstring are left out."""
    of_its_own = {name: each for name, each in vars(shown).items() if not name.startswith("_")}
    silent = [name for name, each in of_its_own.items() if not each.__doc__]
    assert [name for name in silent if not isinstance(of_its_own[name], MEMBER)] == []
