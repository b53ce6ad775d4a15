"""A process takes a setting from its options first, then from the environment, then from its own defaults."""

from __future__ import annotations

import re
import socket
from argparse import Namespace
from datetime import timedelta
from pathlib import Path

import pytest
from sublet.command_line.run import DESCRIPTION, given_settings
from sublet.command_line.settings_options import option_of, settings_of
from sublet.errors import SettingsError
from sublet.operate.cli.main import parser
from sublet.settings import DEFINITIONS, Mode, OnlyFor, Reading, Settings, StreamChoice

NAMED = ("--application", "orders", "--stream", "events", "--handler", "orders:handle")


def settings(*arguments: str, **environment: str) -> Settings:
    return settings_of(parser().parse_args(["run", *arguments]), environment)


def test_a_process_is_continuous_and_a_worker_of_its_own() -> None:
    given = settings(*NAMED)
    assert given.mode is Mode.CONTINUOUS
    assert (given.worker_id or "").startswith(f"orders-{socket.gethostname()}-")


def test_the_examples_in_the_help_and_the_documents_are_accepted_as_they_stand() -> None:
    told = DESCRIPTION + Path("docs/settings.md").read_text() + Path("docs/reference.md").read_text()
    shown = re.findall(r"(?:--failover-time |FAILOVER_TIME=|failover_time=\")(\d+[a-z]+)", told)
    assert len(shown) >= 5
    for text in shown:
        assert settings(*NAMED, "--failover-time", text).failover_time


@pytest.mark.parametrize("missing", ["application", "stream", "handler"])
def test_run_names_the_option_of_a_missing_setting(missing: str) -> None:
    named = dict(zip(NAMED[::2], NAMED[1::2], strict=True))
    del named[f"--{missing}"]
    with pytest.raises(SettingsError, match=f"give --{missing}, or set SUBLET_{missing.upper()}"):
        settings(*(word for option in named.items() for word in option))


STREAM_ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/events"


def test_stream_may_be_named_by_its_arn() -> None:
    options = ("--application", "orders", "--handler", "orders:handle")
    for given in (settings(*options, "--stream", STREAM_ARN), settings(*options, SUBLET_STREAM=STREAM_ARN)):
        assert (given.stream, given.stream_arn) == ("events", STREAM_ARN)
    with pytest.raises(SettingsError, match="the ARN of a stream"):
        settings(*options, "--stream", "arn:aws:sqs:eu-west-1:123456789012:orders")


def test_options_go_before_the_environment_and_that_before_the_defaults() -> None:
    options = ("--application", "orders", "--handler", "orders:handle", "--failover-time", "60s")
    given = settings(
        *options,
        SUBLET_APPLICATION="audit",
        SUBLET_STREAM="events",
        SUBLET_MODE="catch_up",
        SUBLET_FAILOVER_TIME="2m",
        HOME="/",
    )
    assert (given.application, given.stream, given.handler) == ("orders", "events", "orders:handle")
    assert given.mode is Mode.CATCH_UP
    assert given.failover_time == timedelta(minutes=1)


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=lambda each: each.name)
def test_each_setting_of_a_process_is_an_option(
    capsys: pytest.CaptureFixture[str],
    definition: object,
) -> None:
    setting = DEFINITIONS[str(getattr(definition, "name", ""))]
    without_default = {
        "stream_arn": "arn:aws:kinesis:eu-west-1:123456789012:stream/events",
        "checkpointing": "manual",
        "handler_timeout": "5m",
        "maximum_record_age": "5m",
        "poll_bytes": str(2**20),
        "filter_criteria": '{"Filters": [{"Pattern": {"data": ["x"]}}]}',
        "health": "127.0.0.1:8080",
        "payload_format": "json",
        "trace_context": "json:traceparent",
        "on_failure": "arn:aws:s3:::given-up/orders",
        "streams": "orders,audit-*@LATEST",
        "fan_out_consumer": "arn:aws:kinesis:eu-west-1:123456789012:stream/events/consumer/orders:1",
    }
    text = setting.default_text or without_default.get(setting.name, "events")
    others = ["--on-failure", "arn:aws:s3:::given-up"] if setting.name == "maximum_record_age" else []
    if setting.name == "fan_out_consumer":
        others = ["--reading", "fan_out"]
    named = [word for word in NAMED if setting.name != "streams" or word not in ("--stream", "events")]
    arguments = [*named, *others, option_of(setting.name), "m:f" if setting.name == "handler" else text]
    if setting.only is OnlyFor.LAMBDA:
        with pytest.raises(SystemExit):
            settings(*arguments)
    else:
        streams = StreamChoice.parse("orders,audit-*@LATEST")
        expected = (setting.default, "events", "m:f", text, timedelta(minutes=5), 2**20, streams)
        assert getattr(settings(*arguments), setting.name) in expected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--failover-time", "60"), "setting failover_time = '60': a number and a unit"),
        (("--failover-time", "2d"), "setting failover_time = '2d': 3s to 1d"),
        (("--mode", "continous"), "setting mode = 'continous': one of catch_up, continuous"),
        (("--fair-share", "yes"), "setting fair_share = 'yes': true or false"),
    ],
)
def test_a_wrong_value_is_refused_as_anywhere_else(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(*NAMED, *arguments)
    assert says in str(refused.value)


def test_a_wrong_variable_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(SettingsError, match=r"did you mean SUBLET_FAILOVER_TIME\?"):
        settings(*NAMED, SUBLET_FAILOVERTIME="10s")


def test_the_help_has_type_range_default_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings("--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "--failover-time DURATION A lease whose counter stands still for this long" in said
    assert "[3s to 1d; default: 30s]" in said
    assert "default: continuous]" in said, "a process's own default, not the deployment's"
    assert "--worker-count" not in said, "it is for Lambda deployments only"


def test_the_help_says_that_stream_takes_an_arn(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings("--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "--stream TEXT The stream's name or, unlike the setting, its ARN." in said
    assert "not its ARN" not in said


@pytest.mark.parametrize("failover_time", ["3s", "10s", "5m"])
def test_a_command_without_a_handler_takes_any_failover_time(failover_time: str) -> None:
    named = {"SUBLET_APPLICATION": "orders", "SUBLET_FAILOVER_TIME": failover_time}
    found = settings_of(Namespace(), named, required=("application",))
    assert found.heartbeat_interval * 3 <= found.failover_time
    with pytest.raises(SettingsError, match="heartbeat_interval"):
        settings_of(Namespace(), named | {"SUBLET_HEARTBEAT_INTERVAL": "9m"}, required=("application",))


def test_register_needs_no_consumer_beside_reading_by_fan_out() -> None:
    """Its ARN is not known before the registration, and the stream is polled until then."""
    options = parser().parse_args(["run", *NAMED, "--reading", "fan_out", "--register", "audit"])
    assert given_settings(options, {}).reading is Reading.POLLING
    stated = parser().parse_args(["run", *NAMED, "--register", "audit"])
    assert given_settings(stated, {"SUBLET_READING": "fan_out"}).reading is Reading.POLLING


@pytest.mark.parametrize(("name", "text"), [("WORKER_COUNT", "3"), ("WINDOWS_PER_EXECUTION", "2")])
def test_a_variable_that_is_only_for_lambda_is_refused_by_run(name: str, text: str) -> None:
    options = parser().parse_args(["run", *NAMED])
    with pytest.raises(SettingsError, match=f"^setting SUBLET_{name} = '{text}': only for Lambda$"):
        given_settings(options, {f"SUBLET_{name}": text})


def test_variables_with_their_defaults_are_taken_by_run_as_the_constructs_state_all() -> None:
    stated = Settings(application="orders", stream="events").to_environment()
    assert given_settings(parser().parse_args(["run", *NAMED]), stated).application == "orders"


def test_register_refuses_a_consumer_that_is_given_too() -> None:
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/events/consumer/audit:1"
    given = ("--reading", "fan_out", "--fan-out-consumer", arn, "--register", "audit")
    with pytest.raises(SettingsError, match="not allowed with --register, which finds the ARN"):
        given_settings(parser().parse_args(["run", *NAMED, *given]), {})


def test_register_of_several_streams_reads_each_by_fan_out() -> None:
    named = ("--application", "orders", "--streams", "orders,audit", "--handler", "orders:handle")
    found = given_settings(parser().parse_args(["run", *named, "--reading", "fan_out", "--register", "audit"]), {})
    assert (found.reading, found.fan_out_consumer, found.register_fan_out) == (Reading.FAN_OUT, "audit", True)


def test_the_identity_in_a_handlers_events_is_taken_by_run() -> None:
    options, role = parser().parse_args(["run", *NAMED]), "arn:aws:iam::123456789012:role/orders"
    assert given_settings(options, {"SUBLET_INVOKE_IDENTITY_ARN": role}).invoke_identity_arn == role
