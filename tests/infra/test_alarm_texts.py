"""The text of every alarm, of each construct, to somebody who is woken by it and has not seen the code."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Environment, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from sublet.operate.cli.main import parser
from sublet.spark.options import Leases
from sublet_cdk.alarm_texts import DESCRIPTION_MAX, Subject, Told, notification
from sublet_cdk.kinesis_consumer import KinesisConsumer
from sublet_cdk.kinesis_consumer_service import KinesisConsumerService
from sublet_cdk.monitoring import ConsumerMonitoring
from sublet_cdk.spark_pipeline import SparkPipeline

from tests.exploring import first
from tests.infra.apps import an_app, code_and_layer

HERE = Environment(account="123456789012", region="eu-central-1")
STREAM = "arn:aws:kinesis:eu-central-1:123456789012:stream/{}"
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:given-up"
LONGEST_NAME = 128
"""Of a CloudFormation stack, and so about what names that it generates have."""
TEXT = re.compile(r"(?P<of>[^:]+): (?P<when>[^.]+(?:\.\d[^.]*)*)\. First: `(?P<first>[^`]+)`\.(?P<then>.*)", re.DOTALL)

Build = Callable[[Stack, Path, str, str], None]


def consumer(stack: Stack, parts: Path, application: str, stream: str, **given: Any) -> None:
    of_one = kinesis.Stream.from_stream_arn(stack, "Stream", STREAM.format(stream))
    KinesisConsumer(
        stack,
        "Consumer",
        application=application,
        stream=None if "streams" in given else of_one,
        handler_code=parts / "code",
        handler="orders:handle",
        dependencies_layer=parts / "layer",
        on_failure=QUEUE,
        maximum_retry_attempts=3,
        **given,
    )


def of_a_new_stream(stack: Stack, parts: Path, application: str, _: str) -> None:
    KinesisConsumer(
        stack,
        "Consumer",
        application=application,
        stream=kinesis.Stream(stack, "New"),
        handler_code=parts / "code",
        handler="orders:handle",
        dependencies_layer=parts / "layer",
    )


def lean(stack: Stack, parts: Path, application: str, stream: str) -> None:
    consumer(stack, parts, application, stream, monitoring="lean")


def of_several(stack: Stack, parts: Path, application: str, stream: str) -> None:
    consumer(stack, parts, application, stream, streams=f"{stream},other")


def of_a_pattern(stack: Stack, parts: Path, application: str, stream: str) -> None:
    consumer(stack, parts, application, stream, streams=f"{stream[:100]}*")


def service(stack: Stack, parts: Path, application: str, stream: str) -> None:
    KinesisConsumerService(
        stack,
        "Service",
        application=application,
        stream=kinesis.Stream.from_stream_arn(stack, "Stream", STREAM.format(stream)),
        handler_code=parts / "code",
        handler="orders:handle",
        dependencies=parts / "layer",
        vpc=ec2.Vpc(stack, "Network", max_azs=1),
    )


def process(stack: Stack, _: Path, application: str, stream: str) -> None:
    group = logs.LogGroup.from_log_group_name(stack, "Log", "/ecs/a-process/of/orders")
    ConsumerMonitoring(stack, "Monitoring", application=application, stream=stream, log_group=group)


def pipeline(stack: Stack, parts: Path, application: str, stream: str) -> None:
    SparkPipeline(
        stack,
        "Pipeline",
        name=application[:64],
        stream=kinesis.Stream.from_stream_arn(stack, "Stream", STREAM.format(stream)),
        bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "lake"),
        dependencies=parts / "spark",
        vpc=ec2.Vpc(stack, "Network", max_azs=1),
        application=application,
        leases=Leases.HOLD,
    )


BUILDS: Mapping[str, Build] = {
    "Lambda": consumer,
    "Lambda, lean": lean,
    "Lambda, its own stream": of_a_new_stream,
    "Lambda, streams by name": of_several,
    "Lambda, streams by pattern": of_a_pattern,
    "Fargate": service,
    "a process": process,
    "EMR": pipeline,
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("texts")
    code_and_layer(root)
    for package in ("pyarrow", "deltalake", "arro3"):
        (root / "spark" / package).mkdir(parents=True)
        (root / "spark" / package / "__init__.py").write_text("")
    return root


def template_of(build: Build, parts: Path, application: str, stream: str) -> Template:
    stack = Stack(an_app(), "texts", env=HERE)
    build(stack, parts, application, stream)
    return Template.from_stack(stack)


def resolved(value: Any, length: int | None = None) -> str:
    """A text of the template. What CloudFormation fills in is the resource's logical id, or as long as names get."""
    match value:
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(resolved(part, length) for part in parts)
        case {"Ref": "AWS::Partition"}:
            return "aws"
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            return name if length is None else "x" * length
        case {"Fn::Select": _}:
            return "selected" if length is None else "x" * length
    return str(value)


def alarms(template: Template) -> Iterator[tuple[str, Any]]:
    for name, alarm in template.find_resources("AWS::CloudWatch::Alarm").items():
        yield name, alarm["Properties"]["AlarmDescription"]


@pytest.fixture(scope="module", params=BUILDS)
def built(request: pytest.FixtureRequest, parts: Path) -> tuple[str, Template]:
    return request.param, template_of(BUILDS[request.param], parts, "orders-audit", "orders")


def test_text_says_whose_it_is_and_what_is_wrong_in_one_sentence(built: tuple[str, Template]) -> None:
    way, template = built
    found = dict(alarms(template))
    assert len(found) >= 4
    stream = "several streams|stream (orders|other)" if "streams by" in way else "stream (orders|ConsumerNew|New)"
    for name, text in found.items():
        said = TEXT.fullmatch(resolved(text))
        assert said is not None, (name, resolved(text))
        assert "orders-audit" in said["of"], name
        assert re.search(stream, said["of"]), (name, said["of"])
        assert 20 < len(said["when"]) < 220, said["when"]
        assert said["then"].strip(), name
    assert len(found) == len(set(map(resolved, found.values())))


def test_first_command_is_one_that_the_command_line_takes(built: tuple[str, Template]) -> None:
    way, template = built
    for name, text in alarms(template):
        said = TEXT.fullmatch(resolved(text))
        assert said is not None
        program, *arguments = shlex.split(said["first"])
        if way == "EMR" and program == "aws":
            assert arguments[0] in {"emr-serverless", "sqs"}
            continue
        assert program == "sublet", name
        options = parser(arguments).parse_args(arguments)
        assert arguments[0] == "doctor"
        assert options.application == "orders-audit"
        assert options.stream == named_stream(way, said["of"]), (name, said["first"])
        if name.startswith(("ConsumerAlarmsSetAside", "ConsumerAlarmsRecordsSetAside")) and "own stream" not in way:
            assert options.on_failure == QUEUE


def named_stream(way: str, of: str) -> str | None:
    """With several streams, the doctor finds them by itself, unless the alarm is on one."""
    one = re.search(r", stream (\S+)", of)
    assert one is not None or way.startswith("Lambda, streams by")
    return one[1] if one else None


def test_log_group_is_named_and_linked(built: tuple[str, Template]) -> None:
    way, template = built
    groups = template.find_resources("AWS::Logs::LogGroup")
    for name, text in alarms(template):
        log = re.search(r"Log: (\S+) (https://\S+)", resolved(text))
        assert log is not None, (name, resolved(text))
        console = "https://console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logsV2:log-groups/log-group/"
        if way == "a process":
            assert log[1] == "/ecs/a-process/of/orders"
            assert log[2] == f"{console}$252Fecs$252Fa-process$252Fof$252Forders"
        else:
            assert log[1] in {*groups, *(each["Properties"].get("LogGroupName") for each in groups.values())}
            assert log[2] == console + log[1].replace("/", "$252F")


@pytest.mark.parametrize(
    ("alarm", "group"),
    [
        ("ShardUnread", "LeaseManagerLog"),
        ("HandlerFailing", "LeaseWorkerLog"),
        ("ExecutionsFailing", "/aws/vendedlogs/states/orders-audit-lease-workers"),
    ],
)
def test_log_group_is_that_of_the_part_that_tells_more(parts: Path, alarm: str, group: str) -> None:
    found = dict(alarms(template_of(consumer, parts, "orders-audit", "orders")))
    (text,) = [resolved(text) for name, text in found.items() if name.startswith(f"ConsumerAlarms{alarm}")]
    assert re.search(rf"Log: \S*{group}", text)


@pytest.mark.parametrize("way", first(2, BUILDS))
def test_text_fits_with_the_longest_names(way: str, parts: Path) -> None:
    template = template_of(BUILDS[way], parts, "a" * 64 if way != "a process" else "a" * 200, "s" * 128)
    for name, text in alarms(template):
        shown = resolved(text, LONGEST_NAME)
        assert len(shown) <= DESCRIPTION_MAX, (name, len(shown))
        assert "First: `" in shown


def test_text_of_usual_names_has_all_sentences(parts: Path) -> None:
    """The alarms with the most to say are the measure."""
    for build, alarm, last in (
        (consumer, "ShardUnread", "resume it before records are lost."),
        (lean, "Standstill", "resume it before records are lost."),
        (lean, "LeasesFailing", "a lease whose records kill every process."),
    ):
        found = dict(alarms(template_of(build, parts, "orders-audit", "orders")))
        (text,) = [resolved(text) for name, text in found.items() if name.startswith(f"ConsumerAlarms{alarm}")]
        assert last in text


def test_last_sentences_are_left_out_when_names_leave_no_room() -> None:
    stack = Stack(an_app(), "long")
    told = Told("it is broken", "sublet doctor", "Look here. " + "And there. " * 100)
    text = notification(stack, Subject("orders", "s"), told)
    assert text.startswith("orders, stream s: it is broken. First: `sublet doctor`. Look here. And there.")
    assert text.endswith("And there.")
    assert DESCRIPTION_MAX - len("And there. ") <= len(text) <= DESCRIPTION_MAX


def test_another_text_updates_the_alarms_in_place(parts: Path) -> None:
    """CloudFormation replaces an alarm only if its name changes; these have none, and ids that the text has no part
    in.
    """
    one, other = (
        template_of(consumer, parts, "orders-audit", stream).find_resources("AWS::CloudWatch::Alarm")
        for stream in ("orders", "others")
    )
    assert one.keys() == other.keys()
    for name, alarm in one.items():
        before, after = alarm["Properties"], other[name]["Properties"]
        assert "AlarmName" not in before
        assert {key for key in before if before[key] != after[key]} == {"AlarmDescription"}
        assert json.dumps(before["AlarmDescription"]) != json.dumps(after["AlarmDescription"])
