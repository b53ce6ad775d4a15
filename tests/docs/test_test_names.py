"""CONTRIBUTING.md's rule for the names of tests."""

from __future__ import annotations

import re

from tests.docs.documents import ROOT

MOST = 80
"""Characters after `test_`."""

NO_SUBJECT = re.compile(r"what_")
"""How a name begins that names no subject."""


def test_test_names_begin_with_a_subject_and_stay_short() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    names = {name for text in texts for name in re.findall(r"^\s*(?:async )?def test_(\w+)", text, re.MULTILINE)}
    assert len(names) > 1_000
    assert sorted(name for name in names if len(name) > MOST or NO_SUBJECT.match(name)) == []
