"""CDK apps of tests, whose templates are all written below one folder, for test_cfn_lint.py to check."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from aws_cdk import App

_FOLDER = tempfile.TemporaryDirectory(prefix="sublet-synthesized-")

SYNTHESIZED = Path(_FOLDER.name)


def an_app(**properties: Any) -> App:
    return App(outdir=tempfile.mkdtemp(dir=SYNTHESIZED), **properties)
