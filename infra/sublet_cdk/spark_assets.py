"""The assets of a pipeline's run: the library, its dependencies, the user's code and schema.

CDK zips them, the deployment uploads them, Spark unpacks them: no Docker, no packed environment. The interpreter is
EMR's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct
from sublet.errors import SettingsError
from sublet.spark.pipeline.settings import Sink
from sublet_cdk.code_folder import EXCLUDE, copy_code
from sublet_cdk.handler_asset import check_handler_exists, check_is_plain
from sublet_cdk.library import stage_folder, stage_library
from sublet_cdk.shipped import shipped

ENTRY_POINT = shipped("functions/spark_pipeline/app.py")

DELTA_ONLY = ["deltalake*", "arro3*"]
"""A third of the dependencies' bytes, which every worker would otherwise load."""


@dataclass(frozen=True, slots=True)
class PipelineAssets:
    """Addresses in S3. `archives`: folder in the workers' directory -> zip. `schema`: the DDL, or the file's
    address.
    """

    entry_point: str
    archives: Mapping[str, str]
    schema: str | None
    object_arns: tuple[str, ...]


def add_assets(
    scope: Construct,
    *,
    code: Path | None,
    transform: str | None,
    schema: str | None,
    sink: Sink,
    dependencies: Path,
) -> PipelineAssets:
    """Raises SettingsError for missing files, before anything is deployed."""
    _check(code, transform, dependencies)
    leave_out = EXCLUDE if sink is Sink.DELTA else [*EXCLUDE, *DELTA_ONLY]
    folders = {
        "library": (stage_library(scope, with_spark=True) / "python", EXCLUDE),
        "dependencies": (dependencies, leave_out),
    }
    if code is not None:
        staged = stage_folder(scope) / f"code-{scope.node.addr}"
        shutil.rmtree(staged, ignore_errors=True)
        copy_code(code, staged, "code")
        folders["code"] = (staged, EXCLUDE)
    archives = {
        folder: s3_assets.Asset(scope, folder.capitalize(), path=str(path), exclude=exclude)
        for folder, (path, exclude) in folders.items()
    }
    entry_point = s3_assets.Asset(scope, "EntryPoint", path=str(ENTRY_POINT))
    schema_file = _schema_file(schema)
    files = [entry_point]
    if schema_file is not None:
        files.append(s3_assets.Asset(scope, "Schema", path=str(schema_file)))
        schema = files[-1].s3_object_url
    return PipelineAssets(
        entry_point.s3_object_url,
        {folder: asset.s3_object_url for folder, asset in archives.items()},
        schema,
        tuple(asset.bucket.arn_for_objects(asset.s3_object_key) for asset in (*files, *archives.values())),
    )


def _check(code: Path | None, transform: str | None, dependencies: Path) -> None:
    if not (dependencies / "pyarrow").is_dir():
        raise SettingsError(
            "dependencies", str(dependencies), "a folder of packages, such as the one that `make emr` builds"
        )
    if code is not None and not code.is_dir():
        raise SettingsError("code", str(code), "a directory with the transform's module in it")
    if transform is not None:
        if code is None:
            raise SettingsError("code", None, f"the directory of the transform {transform}")
        check_is_plain(check_handler_exists(code, transform, "transform"), transform, "transform")


def _schema_file(schema: str | None) -> Path | None:
    """Returns None for DDL, and for a file that is already in S3."""
    if schema is None or not schema.endswith((".json", ".avsc")) or "://" in schema:
        return None
    file = Path(schema)
    try:
        json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise SettingsError("schema", schema, f"DDL, or a file with JSON: {problem}") from problem
    return file
