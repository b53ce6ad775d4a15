"""The repository's own pipeline stack: CDK context as SparkPipeline's properties, and which stack the app makes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment
from sublet.errors import SettingsError
from sublet.settings import StartKind
from sublet.spark.options import Leases
from sublet.spark.pipeline.settings import Sink
from sublet_cdk import spark_stack
from sublet_cdk.app import stack_of
from sublet_cdk.spark_pipeline import SparkPipeline
from sublet_cdk.spark_stack import REQUIRED, PipelineStack

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN

GIVEN = {
    "name": "orders-lake",
    "stream_arn": STREAM_ARN,
    "bucket": "lake",
    "vpc_id": "vpc-12345678",
}

Make = Callable[..., PipelineStack]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    dependencies = tmp_path / "dependencies"
    (dependencies / "pyarrow").mkdir(parents=True)

    def stack_of_context(**context: Any) -> PipelineStack:
        app = an_app()
        for name, value in {**GIVEN, **context}.items():
            if value is not None:
                app.node.set_context(name, value)
        env = Environment(account="123456789012", region="eu-central-1")  # where a network is looked up
        return PipelineStack(app, "lake", overrides={"dependencies": dependencies}, env=env)

    return stack_of_context


def test_context_becomes_properties(make: Make, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("def tables(df): ...\n")
    pipeline = make(
        output_prefix="lake/orders",
        checkpoint_prefix="places/orders",
        sink="delta",
        schema="id BIGINT",
        code=str(tmp_path),
        transform="orders:tables",
        application="orders-audit",
        leases="follow",
        start="LATEST",
        options='{"maxSpanPerTrigger": "5m"}',
        spark='{"spark.speculation": "false"}',
        every="rate(30 minutes)",
        executors_max=7,
    ).pipeline
    told = pipeline.arguments
    assert (told.name, told.output_prefix, told.checkpoint_prefix) == (
        *("orders-lake", "lake/orders", "places/orders"),
    )
    assert (told.sink, told.schema, told.transform) == (Sink.DELTA, "id BIGINT", "orders:tables")
    assert (told.application, told.leases) == ("orders-audit", Leases.FOLLOW)
    assert told.start is not None
    assert told.start.kind is StartKind.LATEST
    assert told.options == {"maxSpanPerTrigger": "5m"}
    assert pipeline.fleet.executors_max == 7
    assert pipeline.schedule.schedule_expression == "rate(30 minutes)"


def test_every_text_is_a_property_of_the_construct() -> None:
    properties = SparkPipeline.__init__.__annotations__
    assert not spark_stack.TEXTS.keys() - properties.keys()


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_setting_is_refused_by_name(make: Make, name: str) -> None:
    with pytest.raises(SettingsError, match=f"setting {name} is required"):
        make(**{name: None})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window", "5m"),
        ("stream_arn", "orders"),
        ("sink", "csv"),
        ("leases", "keep"),
        ("start", "EARLIEST"),
        ("options", "[]"),
        ("options", '{"failOnDataLoss": false}'),
        ("spark", "{"),
        ("executors_max", "many"),
        ("architecture", "riscv"),
    ],
)
def test_a_wrong_key_or_value_is_refused_by_its_name(make: Make, name: str, value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        make(**{name: value})
    assert refused.value.name in (name, {"start": "start_position"}.get(name))


@pytest.fixture
def logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the CDK's command line tells the app about its credentials."""
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "123456789012")
    monkeypatch.setenv("CDK_DEFAULT_REGION", "us-east-1")


def app_of(context: Mapping[str, Any]) -> App:
    app = an_app()
    for name, value in context.items():
        app.node.set_context(name, value)
    return app


def test_a_network_cannot_be_looked_up_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDK_DEFAULT_ACCOUNT", raising=False)
    with pytest.raises(SettingsError, match=r"setting vpc_id = 'vpc-12345678': .*credentials"):
        stack_of(app_of({**GIVEN, "stack": "pipeline"}), {})


@pytest.mark.usefixtures("logged_in")
def test_the_app_makes_a_pipeline_when_asked_for_one(tmp_path: Path) -> None:
    (tmp_path / "pyarrow").mkdir()
    app = app_of({**GIVEN, "stack": "pipeline", "dependencies": str(tmp_path), "cli_credentials": True})
    assert stack_of(app, {}).stack_name == "sublet-pipeline-orders-lake"


@pytest.mark.usefixtures("logged_in")
def test_dependencies_that_are_not_built_are_named_with_how_to_build_them(tmp_path: Path) -> None:
    app = app_of({**GIVEN, "stack": "pipeline", "dependencies": str(tmp_path)})
    with pytest.raises(SettingsError, match=r"setting dependencies = .*make emr"):
        stack_of(app, {})


def test_the_app_refuses_another_stack() -> None:
    with pytest.raises(SettingsError, match="setting stack = 'spark': consumer or pipeline"):
        stack_of(app_of({"stack": "spark"}), {})


@pytest.mark.usefixtures("logged_in")
def test_spark_stack_takes_no_context_but_the_commands(tmp_path: Path) -> None:
    """The folder in which `sublet deploy` is called may have another app's cdk.json, with the same names."""
    (tmp_path / "pyarrow").mkdir()
    given = {**GIVEN, "stack": "pipeline", "dependencies": str(tmp_path)}
    theirs = {"team": "orders", "executors_max": "many", "name": "theirs", "stack": "consumer"}
    assert stack_of(app_of({"sublet": json.dumps(given), **theirs}), {}).stack_name == "sublet-pipeline-orders-lake"


def test_an_unknown_key_of_the_command_line_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="setting team = 'orders': no such context key"):
        stack_of(app_of({"sublet": json.dumps({"stack": "pipeline", "team": "orders"})}), {})
