"""The limits of AWS in docs/aws-limits.md are those of the code."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "aws-limits.md"
ROW = re.compile(
    r"^\| (?P<what>[^|]+) \| (?P<value>[\d,]+) \| `(?P<module>[\w/]+)\.(?P<name>[A-Z_]+)` \|", re.MULTILINE
)
LIMITS = [match.groups() for match in ROW.finditer(PAGE.read_text())]


@pytest.mark.parametrize(("what", "value", "module", "name"), LIMITS, ids=[each[3] for each in LIMITS])
def test_documented_limit_equals_the_codes(what: str, value: str, module: str, name: str) -> None:
    known = getattr(import_module(f"sublet.{module.replace('/', '.')}"), name)
    assert known == int(value.replace(",", "")), what


def test_limits_are_listed() -> None:
    assert len(LIMITS) > 25
