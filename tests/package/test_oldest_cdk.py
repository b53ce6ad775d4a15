"""The constructs with the oldest CDK that pyproject.toml allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.exploring import explores
from tests.package.distributions import LAYER, ROOT, Distributions, environment_with, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), explores]

APP = """
from aws_cdk import App, Stack
from aws_cdk.aws_ec2 import Vpc
from aws_cdk.aws_kinesis import Stream
from aws_cdk.aws_s3 import Bucket
from sublet_cdk import KinesisConsumer, SparkPipeline

app = App(outdir="cdk.out")
stack = Stack(app, "orders")
stream = Stream(stack, "Orders")
KinesisConsumer(
    stack, "Audit", application="orders-audit", stream=stream, handler_code="handlers", handler="orders:handle",
    dependencies_layer="layer",
)
SparkPipeline(
    stack, "Lake", name="orders-lake", stream=stream, bucket=Bucket(stack, "Tables"),
    dependencies="packages", vpc=Vpc(stack, "Network"),
)
app.synth()
"""


def oldest_cdk() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (cdk,) = [each for each in project["optional-dependencies"]["cdk"] if each.startswith("aws-cdk-lib")]
    found = re.search(r">=([\d.]+)", cdk)
    assert found is not None
    return found[1]


def test_both_constructs_can_be_synthesized(distributions: Distributions, tmp_path: Path) -> None:
    cdk = (f"aws-cdk-lib=={oldest_cdk()}", "constructs")
    python = environment_with(distributions.wheel, tmp_path / "venv", more=cdk, locked=LAYER)
    for folder in ("handlers", "layer/python", "packages/pyarrow"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "orders.py").write_text("def handle(batch): ...\n")
    (tmp_path / "app.py").write_text(APP)
    run([str(python), "app.py"], tmp_path)
    template = (tmp_path / "cdk.out" / "orders.template.json").read_text()
    assert "AWS::StepFunctions::StateMachine" in template
    assert "AWS::EMRServerless::Application" in template
