"""The changelog has Keep a Changelog's format."""

from __future__ import annotations

import re

from sublet import __version__

from tests.docs.documents import ROOT

SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
TEXT = (ROOT / "CHANGELOG.md").read_text()
VERSIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


def test_each_section_of_a_version_stands_once_and_in_order() -> None:
    for version in VERSIONS:
        sections = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert sections == [section for section in SECTIONS if section in sections], version.splitlines()[0]


def test_changelog_begins_with_this_version_or_the_unreleased() -> None:
    newest = [version.splitlines()[0] for version in VERSIONS][:2]
    assert any(re.search(rf"(?<!\d){re.escape(each)}", " ".join(newest)) for each in (__version__, __version__[:3]))


def test_changelog_lists_nothing_twice() -> None:
    said = re.findall(r"^\* (.{40})", TEXT, re.MULTILINE)
    assert len(said) == len(set(said))
