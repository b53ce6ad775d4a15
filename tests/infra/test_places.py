"""A stream or a table of another region or account is refused at synth, or a warning says what it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Environment, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kinesis as kinesis
from aws_cdk.assertions import Annotations, Match
from sublet.errors import SettingsError
from sublet_cdk.app import stack_of
from sublet_cdk.kinesis_consumer import KinesisConsumer

from tests.infra.apps import an_app

HERE = Environment(account="123456789012", region="eu-central-1")

Make = Callable[..., Stack]


def arn(service: str, resource: str, region: str = "eu-central-1", account: str = "123456789012") -> str:
    return f"arn:aws:{service}:{region}:{account}:{resource}"


@pytest.fixture
def make(tmp_path: Path) -> Make:
    (tmp_path / "layer" / "python").mkdir(parents=True)
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")

    def make(stream: str, table: str | None = None, env: Environment | None = HERE) -> Stack:
        stack = Stack(an_app(), "orders", env=env)
        given: dict[str, Any] = {}
        if table is not None:
            given["lease_table"] = dynamodb.Table.from_table_arn(stack, "Leases", table)
        KinesisConsumer(
            stack,
            "Consumer",
            application="orders-audit",
            stream=kinesis.Stream.from_stream_arn(stack, "Stream", stream),
            handler_code=tmp_path,
            handler="orders:handle",
            dependencies_layer=tmp_path / "layer",
            **given,
        )
        return stack

    return make


STREAM, TABLE = arn("kinesis", "stream/orders"), arn("dynamodb", "table/orders-audit")


def test_a_stream_and_a_table_of_the_stacks_own_place_are_taken(make: Make) -> None:
    stack = make(STREAM, TABLE)
    assert Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("account")) == []


def test_a_stream_of_another_region_is_refused_with_both(make: Make) -> None:
    with pytest.raises(SettingsError, match=r"a stream in eu-central-1, .* or deploy in us-east-1"):
        make(arn("kinesis", "stream/orders", region="us-east-1"))


@pytest.mark.parametrize("elsewhere", [{"region": "us-east-1"}, {"account": "999999999999"}], ids=["region", "account"])
def test_a_table_of_another_place_is_refused(make: Make, elsewhere: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"setting lease_table = .*the stack's own region \(eu-central-1\)"):
        make(STREAM, arn("dynamodb", "table/orders-audit", **elsewhere))


def test_lease_table_must_be_where_the_stream_is_without_an_environment(make: Make) -> None:
    make(STREAM, TABLE, None)
    with pytest.raises(SettingsError, match="setting lease_table = "):
        make(STREAM, arn("dynamodb", "table/orders-audit", region="us-east-1"), None)


def test_stream_of_another_account_is_warned_about_its_resource_policy(make: Make) -> None:
    stack = make(arn("kinesis", "stream/orders", account="999999999999"))
    warned = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("resource policy"))
    assert "in account 999999999999, the stack in 123456789012" in str(warned[0].entry.data)


def test_sublet_deploy_goes_where_the_stream_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDK_DEFAULT_REGION", "us-east-1")
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")
    (tmp_path / "layer" / "python").mkdir(parents=True)
    context = {
        "application": "orders-audit",
        "stream_arn": STREAM,
        "handler_code": str(tmp_path),
        "handler": "orders:handle",
    }
    assert stack_of(an_app(context=context), {}).region == "eu-central-1"
