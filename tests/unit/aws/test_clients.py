"""What is the same for every client, and said in only one other place."""

from __future__ import annotations

import tomllib
from pathlib import Path

from sublet.aws.clients import VERSION

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_the_user_agents_version_is_the_projects() -> None:
    assert tomllib.loads(PYPROJECT.read_text())["project"]["version"] == VERSION
