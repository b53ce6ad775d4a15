"""The documents, and helpers to read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layers/sublet/python/sublet"
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "examples/README.md",
        ROOT / "tests/e2e/README.md",
    ]
)
CURRENT = [document for document in DOCUMENTS if document.name != "CHANGELOG.md"]
"""Documents about the current code. The changelog also names removed things."""

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks(document: Path) -> list[Block]:
    """Fenced code blocks, in order."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in fenced]


def commands(document: Path) -> Iterator[str]:
    """Shell commands: lines indented by four, with backslash continuations joined, and code spans."""
    prose = _FENCE.sub("", document.read_text()).replace("\\\n", " ")
    for line in re.findall(r"^ {4}(\S.*)$", prose, re.MULTILINE):
        yield re.sub(r"\s+# .*$", "", line).strip()
    yield from (each for each in code_spans(document) if re.match(r"(make|sublet|cdk|python -m|uv|uvx) ", each))


def code_spans(document: Path) -> list[str]:
    """Texts between backticks outside code blocks."""
    prose = _FENCE.sub("", document.read_text())
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def links(document: Path) -> list[str]:
    """Link targets, without those on other sites."""
    prose = _FENCE.sub("", document.read_text())
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if not link.startswith("http")]


def anchors(document: Path) -> set[str]:
    """Headings as link anchors."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
