"""A stack as plain files, for SAM, Terraform and other tools: `sublet synth --plain FOLDER`.

    FOLDER/assets/<hash>.zip     the functions' code and their layers
    FOLDER/template.json         finds them in S3, by the parameters AssetsBucket and AssetsPrefix
    FOLDER/template.local.json   the same with paths into this folder, which `sam deploy` and `aws cloudformation
                                 package` upload

Nothing of the CDK is needed to deploy them, and no bootstrapped account.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App
from sublet.errors import SettingsError, SubletError
from sublet_cdk.app import stack_of

ASSETS = "assets"
BUCKET, PREFIX = "AssetsBucket", "AssetsPrefix"
PARAMETERS = {
    BUCKET: {"Type": "String", "Description": "the bucket of assets/*.zip, in the stack's region"},
    PREFIX: {
        "Type": "String",
        "Default": "",
        "Description": "where they are in it: empty, or a folder with its slash",
    },
}
CODE = {"AWS::Lambda::Function": "Code", "AWS::Lambda::LayerVersion": "Content"}
"""The property that names an asset, by the type of the resource."""
BOOTSTRAP_PARAMETER, BOOTSTRAP_RULE = "BootstrapVersion", "CheckBootstrapVersion"
CDK_BUCKET = "-assets-${AWS::AccountId}"
"""A part of the name of the CDK's bucket."""
OF_1980 = (1980, 1, 1, 0, 0, 0)
"""The time of each file in a zip, so that equal files make equal zips."""


def main() -> None:
    (folder,) = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="sublet-synth-") as outdir:
        try:
            app = App(outdir=outdir)
            name = stack_of(app, {}).stack_name
            app.synth()
            write_plain(Path(outdir), name, Path(folder))
        except SubletError as refused:
            sys.exit(f"sublet: {refused}")
    print(f"{folder}/template.json, {folder}/template.local.json and {folder}/{ASSETS} describe the stack {name}")


def write_plain(outdir: Path, stack: str, folder: Path) -> None:
    """Writes the folder from the CDK's output. Raises SettingsError if the stack uses assets for anything but functions
    and layers.
    """
    template = json.loads((outdir / f"{stack}.template.json").read_text())
    files = json.loads((outdir / f"{stack}.assets.json").read_text())["files"]
    zips = _write_assets(outdir, files, folder / ASSETS)
    for name, code in (
        (
            "template.json",
            lambda file: {"S3Bucket": {"Ref": BUCKET}, "S3Key": {"Fn::Sub": f"${{{PREFIX}}}{file}"}},
        ),
        ("template.local.json", lambda file: f"{ASSETS}/{file}"),
    ):
        found = plain_template(template, {key: code(file) for key, file in zips.items()})
        if name == "template.json":
            found["Parameters"] = {**found.get("Parameters", {}), **PARAMETERS}
        (folder / name).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def plain_template(template: Mapping[str, Any], code: Mapping[str, object]) -> dict[str, Any]:
    """Returns the template without the parts that the CDK's command line needs. `code`: the new location of each asset,
    by its key in the CDK's bucket.
    """
    found: dict[str, Any] = json.loads(json.dumps(template))
    for part, name in (("Parameters", BOOTSTRAP_PARAMETER), ("Rules", BOOTSTRAP_RULE)):
        found.get(part, {}).pop(name, None)
        if not found.get(part, True):
            del found[part]
    for resource in found["Resources"].values():
        resource.get("Metadata", {}).pop("aws:asset:path", None)
        where = CODE.get(resource["Type"])
        given = resource.get("Properties", {}).get(where) if where else None
        if isinstance(given, dict) and given.get("S3Key") in code:
            resource["Properties"][where] = code[given["S3Key"]]
    if CDK_BUCKET in json.dumps(found["Resources"]):
        raise SettingsError("--plain", "this stack", "a stack whose only files are functions' code and layers")
    return found


def _write_assets(outdir: Path, files: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Writes the assets, and returns their file names in `folder`, by their keys in the CDK's bucket."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = {}
    for asset in files.values():
        source, (destination, *_) = asset["source"], asset["destinations"].values()
        key, path = destination["objectKey"], outdir / source["path"]
        if key.endswith(".template.json") or source["path"].endswith(".template.json"):
            continue
        names[key] = Path(key).name
        if source["packaging"] == "zip":
            _zip(path, folder / names[key])
        else:
            shutil.copyfile(path, folder / names[key])
    return names


def _zip(source: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(each for each in source.rglob("*") if each.is_file()):
            info = zipfile.ZipInfo(file.relative_to(source).as_posix(), OF_1980)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if file.stat().st_mode & 0o100 else 0o644) << 16
            archive.writestr(info, file.read_bytes())


if __name__ == "__main__":
    main()
