"""CDK apps of tests, whose templates are all written below one folder, for test_cfn_lint.py to check."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from aws_cdk import App

_FOLDER = tempfile.TemporaryDirectory(prefix="sublet-synthesized-")

SYNTHESIZED = Path(_FOLDER.name)

DISABLE_STAGING = "aws:cdk:disable-asset-staging"


def an_app(*, is_staged: bool = False, **properties: Any) -> App:
    """`is_staged`: its assets are copied to its folder, as `cdk synth` does, which takes longer than the template."""
    context = {DISABLE_STAGING: not is_staged, **properties.pop("context", {})}
    return App(outdir=tempfile.mkdtemp(dir=SYNTHESIZED), context=context, **properties)
