"""Deployed code has its bytecode, if this machine can make it: it is what runs, and does not change an asset's name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Annotations, Match
from aws_cdk.cx_api import SynthesisMessage
from sublet_cdk import bytecode, functions
from sublet_cdk.bytecode import CODE, add_bytecode, python_of_version, running
from sublet_cdk.consumer_stack import ConsumerStack

from tests.infra.conftest import Build

OWN = lambda_.Runtime(f"python{running()}", lambda_.RuntimeFamily.PYTHON)
TAG = f"cpython-{running().replace('.', '')}.pyc"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text("def fails():\n    raise ValueError('compiled')\n")
    (tmp_path / "broken.py").write_text("def handle(:\n")
    return tmp_path


def test_bytecode_runs_and_names_no_folder_of_this_machine(code: Path) -> None:
    add_bytecode(code, running(), CODE)
    (code / "orders.py").write_text("def fails():\n    raise ValueError('from the source')\n")
    run = subprocess.run(
        [sys.executable, "-c", "import orders; orders.fails()"],
        check=False,
        cwd=code,
        capture_output=True,
        text=True,
    )
    assert "ValueError: compiled" in run.stderr
    (compiled,) = code.rglob("*.pyc")
    assert compiled.name == f"orders.{TAG}"
    assert f"{CODE}/orders.py".encode() in compiled.read_bytes()
    assert str(code).encode() not in compiled.read_bytes()


def test_bytecode_is_not_added_without_that_python(code: Path) -> None:
    add_bytecode(code, "3.99", CODE)
    assert not list(code.rglob("*.pyc"))


def test_python_of_another_version_on_the_path_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "python3.98"
    shim.write_text("#!/bin/sh\necho 3.7\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert python_of_version("3.98") is None


def test_functions_and_layers_of_this_python_bring_their_bytecode(build: Build, tmp_path: Path) -> None:
    build(app=App(outdir=str(tmp_path)), runtime=OWN)
    assert (tmp_path / "sublet-library/python/sublet/__pycache__" / f"errors.{TAG}").is_file()
    (handler,) = tmp_path.glob("handler-*")
    assert {path.name for path in handler.rglob("*.pyc")} == {f"{name}.{TAG}" for name in ("app", "orders", "lambdas")}


def test_the_same_code_has_the_same_name_however_it_was_compiled(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for number in range(3):
        if number == 2:
            monkeypatch.setattr(functions, "python_of_version", lambda _: None)
        app = App(outdir=str(tmp_path / str(number)))
        build(app=app, runtime=OWN)
        if number == 1:
            for compiled in (tmp_path / "1").rglob("*.pyc"):
                compiled.write_bytes(b"other bytes")
        app.synth()
        template = json.loads(next((tmp_path / str(number)).glob("*.template.json")).read_text())
        names.append(_code(template))
    assert names[0] == names[1]
    assert names[0] != names[2]


def test_deploying_without_that_python_is_an_error(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _told(build(runtime=OWN))
    monkeypatch.setattr(bytecode, "python_of_version", lambda _: None)
    (told,) = _told(build(runtime=OWN))
    assert f"no python{running()} on this machine" in str(told.entry.data)


def _told(stack: ConsumerStack) -> list[SynthesisMessage]:
    return Annotations.from_stack(stack).find_info("*", Match.string_like_regexp("bytecode"))


def _code(template: dict[str, dict[str, dict[str, Any]]]) -> list[object]:
    kinds = "AWS::Lambda::Function", "AWS::Lambda::LayerVersion"
    resources = template["Resources"].values()
    return [
        each["Properties"].get("Code", each["Properties"].get("Content")) for each in resources if each["Type"] in kinds
    ]
