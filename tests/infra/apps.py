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
    """`is_staged`: its assets are copied to its folder, as `cdk synth` does, which takes longer than the template.
    No test reads tree.json, which takes a fifth of a synthesis.
    """
    context = {DISABLE_STAGING: not is_staged, **properties.pop("context", {})}
    return App(outdir=tempfile.mkdtemp(dir=SYNTHESIZED), context=context, tree_metadata=False, **properties)


def code_and_layer(root: Path) -> tuple[Path, Path]:
    """Folders with a handler (orders.py, lambdas.py) and with the dependencies' layer, as small as they can be."""
    code, layer = root / "code", root / "layer"
    (layer / "python").mkdir(parents=True)
    (layer / "python" / "dependency.py").write_text("")
    code.mkdir()
    (code / "orders.py").write_text("def handle(batch): ...\n")
    (code / "lambdas.py").write_text("def handler(event, context): ...\n")
    return code, layer
