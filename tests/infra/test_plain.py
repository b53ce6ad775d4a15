"""`sublet synth --plain`: a template and zip files that need nothing of the CDK."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from sublet.errors import SettingsError
from sublet.operate.cli.deploy import plain_environment
from sublet.operate.cli.main import parser
from sublet_cdk.plain import plain_template, write_plain

from tests.exploring import explores
from tests.infra.conftest import Build

PAGE = Path(__file__).resolve().parents[2] / "docs/sam-and-terraform.md"
KEY = "0123.zip"


@pytest.fixture(scope="module")
def plain(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    stack = build()
    app = stack.node.root
    assert isinstance(app, App)
    app.synth()
    write_plain(Path(app.outdir), stack.stack_name, folder)
    return folder


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def code_of(template: dict[str, Any]) -> list[Any]:
    kinds = {"AWS::Lambda::Function": "Code", "AWS::Lambda::LayerVersion": "Content"}
    return [each["Properties"][kinds[each["Type"]]] for each in template["Resources"].values() if each["Type"] in kinds]


def test_the_template_finds_its_code_by_two_parameters(plain: Path) -> None:
    template = read(plain / "template.json")
    assert set(template["Parameters"]) == {"AssetsBucket", "AssetsPrefix"}
    assert "Rules" not in template
    files = {file.name for file in (plain / "assets").iterdir()}
    code = code_of(template)
    assert len(code) == 5
    for each in code:
        assert each["S3Bucket"] == {"Ref": "AssetsBucket"}
        prefix, _, name = each["S3Key"]["Fn::Sub"].partition("}")
        assert (prefix, name in files) == ("${AssetsPrefix", True)
    assert {each["S3Key"]["Fn::Sub"].partition("}")[2] for each in code} == files


def test_the_local_template_has_paths_into_the_folder(plain: Path) -> None:
    template = read(plain / "template.local.json")
    assert "Parameters" not in template
    for path in code_of(template):
        assert zipfile.is_zipfile(plain / path)
    names = {name for path in code_of(template) for name in zipfile.ZipFile(plain / path).namelist()}
    assert {"orders.py", "python/sublet/__init__.py", "python/dependency.py"} <= names


def test_plain_template_needs_no_cdk_bootstrap(plain: Path) -> None:
    for name in ("template.json", "template.local.json"):
        text = (plain / name).read_text()
        assert not re.search(r"cdk-hnb|Bootstrap|aws:asset", text)


def test_equal_input_has_equal_files(build: Build, plain: Path, tmp_path: Path) -> None:
    stack = build()
    app = stack.node.root
    assert isinstance(app, App)
    app.synth()
    write_plain(Path(app.outdir), stack.stack_name, tmp_path)
    for file in sorted(plain.rglob("*.*")):
        assert (tmp_path / file.relative_to(plain)).read_bytes() == file.read_bytes(), file


def test_plain_template_refuses_other_uses_of_the_cdks_bucket() -> None:
    job = {
        "Type": "AWS::EMRServerless::Application",
        "Properties": {"Code": {"Fn::Sub": "cdk-x-assets-${AWS::AccountId}"}},
    }
    with pytest.raises(SettingsError, match="functions' code and layers"):
        plain_template({"Resources": {"Job": job}}, {KEY: "assets/0123.zip"})


def test_options_for_cdk_are_refused_since_it_does_not_run() -> None:
    options = parser().parse_args(["synth", "--plain", "out", "--application", "a", "--", "--verbose"])
    with pytest.raises(SettingsError, match="not allowed with options for cdk"):
        plain_environment(options, {})


def test_context_that_is_there_stays_beside_the_options() -> None:
    options = parser().parse_args(["synth", "--plain", "out", "--application", "orders-audit"])
    flag = "@aws-cdk/core:checkSecretUsage"
    made = plain_environment(options, {"HOME": "/", "CDK_CONTEXT_JSON": json.dumps({flag: True})})
    context = json.loads(made["CDK_CONTEXT_JSON"])
    assert (made["HOME"], context) == ("/", {flag: True, "sublet": '{"application": "orders-audit"}'})


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_pages_terraform_is_formatted_as_terraform_does() -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("no terraform here: the page's code is not parsed")
    (text,) = blocks("hcl")
    done = subprocess.run([terraform, "fmt", "-"], input=text, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == text


@explores
@pytest.mark.slow
def test_documented_command_writes_the_documented_files(tmp_path: Path) -> None:
    """With the built layer."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "orders.py").write_text("def handle(batch): ...\n")
    (command,) = re.findall(r"^    (sublet synth --plain .*?)\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == "sublet"
    subprocess.run([sys.executable, "-m", "sublet", *arguments], cwd=tmp_path, timeout=300, check=True)
    assert {"template.json", "template.local.json", "assets"} == {each.name for each in (tmp_path / "deploy").iterdir()}
