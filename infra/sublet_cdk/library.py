"""Copies the library, as imported here, into what is deployed."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from aws_cdk import Stage
from constructs import Construct
from sublet_cdk.bytecode import LAYERS, add_bytecode

PACKAGES = ("sublet", "pyspark_sublet")


def stage_library(scope: Construct, python_version: str | None = None) -> Path:
    """Returns a Lambda layer's folder below the app's output, with the packages in `python/`, and bytecode for
    `python_version`.

    Copies the packages from where they are imported: a checkout, or site-packages, where other packages are beside
    them.
    """
    target = stage_folder(scope) / "sublet-library"
    shutil.rmtree(target, ignore_errors=True)
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None  # this package's own wheel contains them
        assert spec.origin is not None
        source = Path(spec.origin).parent
        shutil.copytree(source, target / "python" / package, ignore=shutil.ignore_patterns("__pycache__"))
    if python_version is not None:
        add_bytecode(target, python_version, LAYERS)
    return target


def stage_folder(scope: Construct) -> Path:
    """Returns the folder for the app's output, and for assets that are assembled before CDK takes them."""
    stage = Stage.of(scope)
    assert stage is not None  # an App is a Stage
    return Path(stage.asset_outdir)
