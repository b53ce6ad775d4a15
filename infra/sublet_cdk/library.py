"""Copies the library, as imported here, into what is deployed."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from aws_cdk import Stage
from constructs import Construct
from sublet_cdk.bytecode import LAYERS, add_bytecode

PACKAGES = ("sublet", "pyspark_sublet")
WINGS = ("operate", "spark", "testing")
OLD_PATHS = ("cli", "memory", "pipeline")
"""Folders of `sublet` that only forward to a wing."""
OF_SPARK = ("spark", "pipeline")
"""The wing of a Spark job, and its old path, which a transform may import."""


def stage_library(scope: Construct, python_version: str | None = None, *, with_spark: bool = False) -> Path:
    """Returns a Lambda layer's folder below the app's output, with the library's core in `python/`, and bytecode for
    `python_version`. Of the wings, it has at most Spark's.

    Copies the packages from where they are imported: a checkout, or site-packages, where other packages are beside
    them.
    """
    target = stage_folder(scope) / ("sublet-library-with-spark" if with_spark else "sublet-library")
    shutil.rmtree(target, ignore_errors=True)
    for package in PACKAGES if with_spark else PACKAGES[:1]:
        spec = find_spec(package)
        assert spec is not None  # this package's own wheel contains them
        assert spec.origin is not None
        source = Path(spec.origin).parent
        absent = {str(source / each) for each in (*WINGS, *OLD_PATHS) if not (with_spark and each in OF_SPARK)}
        shutil.copytree(source, target / "python" / package, ignore=partial(_left_out, absent))
    if python_version is not None:
        add_bytecode(target, python_version, LAYERS)
    return target


def _left_out(absent: Collection[str], folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__pycache__" or str(Path(folder, name)) in absent}


def stage_folder(scope: Construct) -> Path:
    """Returns the folder for the app's output, and for assets that are assembled before CDK takes them."""
    stage = Stage.of(scope)
    assert stage is not None  # an App is a Stage
    return Path(stage.asset_outdir)
