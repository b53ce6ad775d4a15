"""Settings: every refusal names the setting, its value and what is allowed; every value survives the environment."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.settings import (
    DEFINITIONS,
    POLLS_PER_SECOND_MAX,
    PREFIX,
    Balance,
    Checkpointing,
    Definition,
    FailureDetails,
    HandlerContract,
    HashRangeFilter,
    HotShardKeys,
    KclFleet,
    LogExceptions,
    MetricsByShard,
    MetricsExport,
    MetricsLevel,
    Mode,
    OnlyFor,
    Reading,
    Settings,
    StartKind,
    StartPosition,
    StreamChoice,
    Tracing,
    check_sets_aside,
    check_window_fits,
    duration_text,
    parse_duration,
    parse_setting,
)
from sublet.settings.reasons import reasons
from sublet.settings.text import parse_moment

PLAIN = Settings(application="orders", stream="events")
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
ARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/events"


def refused(error: SettingsError, name: str, value: object, allowed: str) -> None:
    """The error names all three, as fields and in its sentence."""
    assert (error.name, error.value) == (name, value)
    assert allowed in error.allowed
    assert str(error) == f"setting {name} = {value!r}: {error.allowed}"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("application", "or", "3 to 200"),
        ("application", "a" * 201, "3 to 200"),
        ("application", "orders audit", "A-Z a-z 0-9 _ . -"),
        ("application", "", "3 to 200"),
        ("stream", "", "required; or streams"),
        ("stream", "events/1", "1 to 128"),
        ("stream", ARN, "an ARN goes to stream_arn"),
        ("stream_arn", ARN + "2", "the ARN of the stream events"),
        ("stream_arn", "events", "the ARN of the setting stream"),
        ("handler", "orders", "module:function"),
        ("handler", "orders:handle()", "module:function"),
        ("handler", "1orders:handle", "module:function"),
        ("worker_id", "", "1 to 200"),
        ("worker_id", "a b", "1 to 200"),
        ("worker_count", 0, "from 1 to 100"),
        ("worker_count", 101, "from 1 to 100"),
        ("leases_per_worker", 0, "from 1 to 200"),
        ("leases_to_acquire", 0, "from 1 to 10,000"),
        ("max_leases_for_worker", 0, "from 1 to 1,000,000"),
        ("max_leases_to_steal_at_one_time", -1, "from 0 to 1,000"),
        ("windows_per_execution", 51, "from 1 to 50"),
        ("poll_limit", 0, "from 1 to 10,000"),
        ("poll_limit", 10_001, "from 1 to 10,000"),
        ("batch_size", 0, "from 1 to 1,000,000"),
        ("max_bytes_in_flight", 10 * 2**20, "a whole number from 20,971,520"),
        ("max_records_in_flight", 9_999, "from 10,000"),
        ("handler_attempts", 0, "from 1 to 1,000"),
        ("handler_concurrency", 0, "from 1 to 10,000"),
    ],
)
def test_wrong_value_is_refused_with_name_value_and_allowed_values(name: str, value: object, allowed: str) -> None:
    with pytest.raises(SettingsError) as error:
        replace(PLAIN, **{name: value})  # type: ignore[arg-type]
    refused(error.value, name, value, allowed)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("failover_time", 2 * SECOND, "3s to 1d"),
        ("failover_time", 2 * DAY, "3s to 1d"),
        ("heartbeat_interval", SECOND / 2, "1s to 1d"),
        ("window", SECOND / 2, "1s to 7d"),
        ("window_margin", timedelta(milliseconds=99), "100ms to 10m"),
        ("linger", -SECOND, "0s to 1d"),
        ("poll_interval", timedelta(milliseconds=199), "200ms to 1m"),
        ("idle_poll_interval", 5 * MINUTE, "200ms to 4m"),
        ("checkpoint_interval", -SECOND, "0s to 1d"),
        ("handover_wait", 6 * MINUTE, "0s to 5m"),
        ("drain_timeout", timedelta(0), "1s to 1d"),
        ("handler_backoff", 6 * MINUTE, "0s to 5m"),
        ("handler_backoff_max", 11 * MINUTE, "0s to 10m"),
        ("handler_timeout", timedelta(milliseconds=999), "1s to 1d"),
        ("heartbeat_interval", 11 * SECOND, "at most a third of failover_time (30s)"),
        ("window_margin", 8 * MINUTE, "at most half of window (14m)"),
        ("idle_poll_interval", timedelta(milliseconds=200), "at least poll_interval"),
    ],
)
def test_a_wrong_duration_is_refused_as_it_would_be_written(name: str, value: timedelta, allowed: str) -> None:
    settings = replace(PLAIN, poll_interval=SECOND) if "at least" in allowed else PLAIN
    with pytest.raises(SettingsError) as error:
        replace(settings, **{name: value})  # type: ignore[arg-type]
    refused(error.value, name, duration_text(value), allowed)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("application", None, "a value of type str"),
        ("start_position", "LATEST", "a value of type StartPosition"),
        ("failover_time", 30, "a duration: timedelta(seconds=10), or a text such as 10s"),
        ("worker_count", 2.0, "a whole number"),
        ("worker_count", True, "a whole number"),
        ("worker_count", "2", "a whole number"),
        ("fair_share", 1, "True or False"),
        ("stream_arn", 5, "a value of type str"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object, kind: str) -> None:
    with pytest.raises(SettingsError) as error:
        replace(PLAIN, **{name: value})  # type: ignore[arg-type]
    refused(error.value, name, value, kind)


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=lambda each: each.name)
def test_setting_of_every_number_duration_and_text_has_limits(definition: Definition) -> None:
    """A new setting without limits would take any value from the environment."""
    absurd: Any = {int: -2, timedelta: -SECOND, str: "\n"}.get(definition.kind)
    if absurd is not None:
        with pytest.raises(SettingsError) as error:
            replace(PLAIN, **{definition.name: absurd})
        assert error.value.allowed == definition.allowed.described


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=lambda each: each.name)
def test_every_setting_has_a_reason_and_a_default_that_its_text_brings_back(definition: Definition) -> None:
    assert reasons()[definition.name].endswith(".")
    if definition.default_text:
        parsed = parse_setting(definition.name, definition.kind, definition.default_text)
        assert parsed == definition.default == getattr(PLAIN, definition.name)


def test_definition_equals_its_field() -> None:
    settings = DEFINITIONS["failover_time"]
    assert (settings.kind, settings.default, settings.only) == (timedelta, 30 * SECOND, None)
    assert (settings.default_text, settings.allowed.described) == ("30s", "3s to 1d")
    assert settings.elsewhere.kcl == "failoverTimeMillis"
    assert DEFINITIONS["application"].is_required
    assert not DEFINITIONS["stream_arn"].is_required
    assert DEFINITIONS["stream_arn"].kind is str, "or None"
    assert DEFINITIONS["mode"].allowed.described == "one of catch_up, continuous"
    assert DEFINITIONS["fair_share"].allowed.described == "true or false"
    only = {name: definition.only for name, definition in DEFINITIONS.items() if definition.only}
    assert only == {
        "invoke_identity_arn": OnlyFor.LAMBDA,
        "worker_count": OnlyFor.LAMBDA,
        "windows_per_execution": OnlyFor.LAMBDA,
        "worker_id": OnlyFor.PROCESS,
        "register_fan_out": OnlyFor.PROCESS,
        "drain_timeout": OnlyFor.PROCESS,
        "refusal_patience": OnlyFor.PROCESS,
        "health": OnlyFor.PROCESS,
    }


def test_poll_interval_is_at_least_what_kinesis_allows() -> None:
    least = SECOND / POLLS_PER_SECOND_MAX
    replace(PLAIN, poll_interval=least)
    with pytest.raises(SettingsError):
        replace(PLAIN, poll_interval=least - SECOND / 1000)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("EARLIEST", "one of TRIM_HORIZON, LATEST, AT_TIMESTAMP"),
        ("latest", "one of TRIM_HORIZON, LATEST, AT_TIMESTAMP"),
        ("", "one of TRIM_HORIZON"),
        ("AT_TIMESTAMP", "AT_TIMESTAMP needs a time"),
        ("LATEST:2026-01-31T08:00:00Z", "the other kinds take none"),
        ("AT_TIMESTAMP:yesterday", "AT_TIMESTAMP:<ISO 8601 with time zone>"),
        ("AT_TIMESTAMP:2026-01-31T08:00:00", "needs a time zone"),
    ],
)
def test_a_wrong_start_position_is_refused(text: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as error:
        StartPosition.parse(text)
    assert error.value.name == "start_position"
    assert allowed in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "TRIM_HORIZON",
        "LATEST",
        "AT_TIMESTAMP:2026-01-31T08:00:00+00:00",
        "AT_TIMESTAMP:2026-01-31T08:00:00.5+05:30",
    ],
)
def test_a_start_position_comes_back_from_its_text(text: str) -> None:
    position = StartPosition.parse(text)
    assert StartPosition.parse(str(position)) == position


ENVIRONMENT = {PREFIX + "APPLICATION": "orders", PREFIX + "STREAM": "events"}


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("FAILOVER_TIMEOUT", "30s", "no such setting; did you mean SUBLET_FAILOVER_TIME?"),
        ("MODE", "streaming", "one of catch_up, continuous"),
        ("HASH_RANGE_FILTER", "on", "one of kcl, off"),
        ("FAILOVER_TIME", "30", "a number and a unit"),
        ("FAILOVER_TIME", "30 s", "a number and a unit"),
        ("FAILOVER_TIME", "-30s", "a number and a unit"),
        ("FAIR_SHARE", "True", "true or false"),
        ("WORKER_COUNT", "two", "a whole number"),
        ("WORKER_COUNT", "1.5", "a whole number"),
        ("WORKER_COUNT", "-1", "a whole number"),
        ("WORKER_COUNT", "9" * 13, "a whole number"),
        ("WORKER_COUNT", "٢", "a whole number"),
        ("POLL_LIMIT", "20000", "from 1 to 10,000"),
    ],
)
def test_a_wrong_variable_is_refused(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.from_environment({**ENVIRONMENT, PREFIX + variable: text})
    assert variable.lower() in str(error.value).lower()
    assert text in str(error.value)
    assert allowed in str(error.value)


def test_an_unknown_setting_is_refused_by_its_name_and_its_value() -> None:
    """In Python too, where a TypeError would name neither the value nor what is allowed."""
    named: dict[str, Any] = {"application": "orders", "stream": "events"}
    near, far = {**named, "failover": 30}, {**named, "retries": 30}
    with pytest.raises(SettingsError, match=r"failover = 30: no such setting; did you mean failover_time\?"):
        Settings(**near)
    with pytest.raises(SettingsError, match=r"retries = 30: no such setting; the settings are application,"):
        Settings(**far)


def test_shown_are_the_settings_that_differ_from_their_defaults() -> None:
    assert repr(PLAIN) == "Settings(application='orders', stream='events')"
    assert repr(replace(PLAIN, window=2 * MINUTE, fair_share=False)) == (
        "Settings(application='orders', stream='events', fair_share=False, window=datetime.timedelta(seconds=120))"
    )


def test_settings_survive_pickling_and_copying() -> None:
    assert pickle.loads(pickle.dumps(PLAIN)) == copy.deepcopy(PLAIN) == PLAIN  # noqa: S301 -- our own


@pytest.mark.parametrize("name", ["application", "stream"])
def test_missing_setting_is_named_by_its_variable(name: str) -> None:
    environment = {variable: text for variable, text in ENVIRONMENT.items() if variable != PREFIX + name.upper()}
    with pytest.raises(SettingsError, match=f"set SUBLET_{name.upper()}"):
        Settings.from_environment(environment)


def test_other_variables_of_the_environment_are_not_ours() -> None:
    assert Settings.from_environment({**ENVIRONMENT, "AWS_REGION": "eu-central-1", "PATH": "/bin"}) == PLAIN


def test_every_setting_survives_the_environment() -> None:
    """The construct writes the variables, the functions read them."""
    unusual = Settings(
        application="orders.audit_1",
        stream="events",
        stream_arn=ARN,
        handler="shop.orders:handle",
        mode=Mode.CONTINUOUS,
        start_position=StartPosition(StartKind.AT_TIMESTAMP, datetime(2026, 1, 31, 8, 0, 0, 123000, tzinfo=UTC)),
        failover_time=timedelta(seconds=45),
        heartbeat_interval=timedelta(milliseconds=1500),
        worker_count=3,
        worker_id="orders-process-1",
        leases_per_worker=7,
        handler_contract=HandlerContract.LAMBDA_EVENT,
        deaggregate=False,
        invoke_identity_arn="arn:aws:iam::123456789012:role/orders",
        leases_to_acquire=8,
        max_leases_for_worker=9,
        max_leases_to_steal_at_one_time=0,
        fair_share=False,
        balance=Balance.GROUP,
        group_separator="--",
        enable_priority_lease_assignment=False,
        window=timedelta(minutes=3),
        window_margin=timedelta(milliseconds=1234),
        windows_per_execution=5,
        linger=timedelta(0),
        poll_interval=timedelta(milliseconds=250),
        idle_poll_interval=timedelta(seconds=90),
        maximum_batching_window=timedelta(seconds=30),
        poll_limit=11,
        poll_bytes=100_000,
        batch_size=12,
        max_bytes_in_flight=33 * 2**20,
        max_records_in_flight=44_000,
        checkpoint_interval=timedelta(hours=2),
        handover_wait=timedelta(0),
        drain_timeout=timedelta(seconds=25),
        refusal_patience=timedelta(minutes=3),
        health="127.0.0.1:8080",
        handler_attempts=6,
        handler_backoff=timedelta(0),
        handler_backoff_max=timedelta(minutes=1),
        handler_timeout=timedelta(minutes=4),
        handler_concurrency=4,
        parallelization_factor=2,
        maximum_retry_attempts=3,
        maximum_record_age=timedelta(hours=6),
        bisect_batch_on_function_error=True,
        report_batch_item_failures=False,
        on_failure="arn:aws:s3:::given-up/orders",
        on_failure_details=FailureDetails.FULL,
        filter_criteria='{"Filters": [{"Pattern": "{\\"data\\": {\\"kind\\": [\\"order\\"]}}"}]}',
        hash_range_filter=HashRangeFilter.OFF,
        log_exceptions=LogExceptions.FRAMES,
        kcl_fleet=KclFleet.V3,
        metrics_by_shard=MetricsByShard.NONE,
        metrics_level=MetricsLevel.LEAN,
        metrics_export=MetricsExport.OTLP,
        traces=Tracing.OFF,
        trace_context="json:headers.traceparent",
        hot_shard_keys=HotShardKeys.NAMES,
        quiet_visit_interval=timedelta(minutes=20),
        stream_discovery_interval=timedelta(minutes=2),
        former_streams_wait=timedelta(hours=5),
    )
    same = {f.name for f in fields(Settings) if getattr(unusual, f.name) == f.default}
    assert same <= {
        "checkpointing",
        "streams",
        "reading",
        "fan_out_consumer",
        "register_fan_out",
        "thread_per_lease",
        "payload_format",
    }, "all others differ"
    several = replace(unusual, stream="", stream_arn=None, streams=StreamChoice.parse("a,b-*@LATEST"))
    pushed = replace(
        unusual,
        reading=Reading.FAN_OUT,
        fan_out_consumer=f"{ARN}/consumer/orders:1795457556",
        maximum_batching_window=timedelta(0),
    )
    registering = replace(several, reading=Reading.FAN_OUT, register_fan_out=True, maximum_batching_window=timedelta(0))
    decoding = replace(PLAIN, payload_format="protobuf:orders.desc:shop.Order")
    for settings in (PLAIN, unusual, several, pushed, registering, decoding):
        assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("200ms", timedelta(milliseconds=200)),
        ("1.5s", timedelta(milliseconds=1500)),
        ("14m", 14 * MINUTE),
        ("2h", timedelta(hours=2)),
        ("1d", DAY),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, duration: timedelta) -> None:
    assert parse_duration("linger", text) == duration
    assert parse_duration("linger", duration_text(duration)) == duration


def test_a_window_longer_than_the_functions_timeout_less_its_margin_is_refused() -> None:
    """Lambda would kill it before its last checkpoint."""
    with pytest.raises(SettingsError) as error:
        check_window_fits(PLAIN, 14 * MINUTE)
    refused(error.value, "window", "14m", "at most 810s: the function's timeout (14m) less window_margin (30s)")
    check_window_fits(PLAIN, 15 * MINUTE)
    check_window_fits(PLAIN, 14 * MINUTE + 30 * SECOND)


def test_names_derived_from_the_application() -> None:
    settings = replace(PLAIN, worker_count=2)
    assert settings.lease_table == "orders", "KCL's convention"
    assert settings.sightings_table == "orders-sightings"
    assert settings.own_worker_ids == ("orders-lambda-0", "orders-lambda-1")
    assert replace(settings, worker_id="process-7").own_worker_ids == ("process-7",)


def test_settings_steal_in_continuous_mode_alone() -> None:
    assert not PLAIN.steals
    assert replace(PLAIN, mode=Mode.CONTINUOUS).steals
    assert not replace(PLAIN, mode=Mode.CONTINUOUS, max_leases_to_steal_at_one_time=0).steals


@pytest.mark.parametrize(
    "given", [{"maximum_retry_attempts": 0}, {"maximum_retry_attempts": 3}, {"maximum_record_age": DAY}]
)
def test_giving_up_records_requires_on_failure(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as error:
        replace(PLAIN, **given)
    assert error.value.name == "on_failure"
    assert replace(PLAIN, **given, on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up").gives_up
    assert not PLAIN.gives_up


@pytest.mark.parametrize(
    ("arn", "is_one"),
    [
        ("arn:aws:sqs:eu-west-1:123456789012:given-up", True),
        ("arn:aws:sqs:eu-west-1:123456789012:given-up.fifo", True),
        ("arn:aws-cn:sns:cn-north-1:123456789012:given-up", True),
        ("arn:aws:s3:::given-up", True),
        ("arn:aws:s3:::given-up/orders/2026/", True),
        ("arn:aws:lambda:eu-west-1:123456789012:function:given-up", False),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/given-up", False),
        ("given-up", False),
    ],
)
def test_a_destination_is_a_queue_a_topic_or_a_bucket(arn: str, is_one: bool) -> None:
    if is_one:
        assert replace(PLAIN, on_failure=arn).on_failure == arn
        return
    with pytest.raises(SettingsError) as error:
        replace(PLAIN, on_failure=arn)
    assert error.value.name == "on_failure"


def test_records_are_not_given_up_among_those_that_a_handler_keeps() -> None:
    with pytest.raises(SettingsError, match="setting checkpointing = 'manual'"):
        replace(
            PLAIN,
            checkpointing=Checkpointing.MANUAL,
            maximum_retry_attempts=1,
            on_failure="arn:aws:s3:::given-up",
        )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (
            {"handler_contract": HandlerContract.RECORD_PROCESSOR, "maximum_retry_attempts": 1},
            "handler_contract",
        ),
        ({"checkpointing": Checkpointing.MANUAL, "parallelization_factor": 2}, "parallelization_factor"),
        (
            {"handler_contract": HandlerContract.RECORD_PROCESSOR, "parallelization_factor": 2},
            "parallelization_factor",
        ),
    ],
)
def test_a_handler_that_checkpoints_by_itself_is_called_in_order(given: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError) as error:
        replace(PLAIN, on_failure="arn:aws:s3:::given-up", **given)
    assert error.value.name == name


def test_forever_is_written_as_in_the_event_source_mapping() -> None:
    assert (
        Settings.from_environment({**ENVIRONMENT, "SUBLET_MAXIMUM_RETRY_ATTEMPTS": "-1"}).maximum_retry_attempts == -1
    )


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("handler_contract", "lambda_event", "HandlerContract.BATCH, HandlerContract.LAMBDA_EVENT, "),
        ("mode", "continuous", "one of Mode.CATCH_UP, Mode.CONTINUOUS: from sublet import Mode"),
        ("on_failure_details", "full", "FailureDetails.FULL"),
    ],
)
def test_text_instead_of_a_choice_is_refused_with_the_member_to_use(name: str, text: str, named: str) -> None:
    """`mode="continuous"` is equal to Mode.CONTINUOUS and not the same: half of the code would go by one, half by the
    other.
    """
    with pytest.raises(SettingsError) as error:
        replace(PLAIN, **{name: text})  # type: ignore[arg-type]
    refused(error.value, name, text, named)


def test_record_processor_refuses_automatic_checkpointing() -> None:
    processor = replace(PLAIN, handler_contract=HandlerContract.RECORD_PROCESSOR)
    assert replace(processor, checkpointing=Checkpointing.MANUAL).is_checkpointed_by_hand
    with pytest.raises(SettingsError, match="setting checkpointing = 'automatic': manual, or left out"):
        replace(processor, checkpointing=Checkpointing.AUTOMATIC)
    assert not replace(PLAIN, checkpointing=Checkpointing.AUTOMATIC).is_checkpointed_by_hand
    assert not PLAIN.is_checkpointed_by_hand


CONSUMER = f"{ARN}/consumer/orders:1795457556"


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"mode": Mode.CATCH_UP}, "setting reading = 'fan_out': only with mode=continuous"),
        ({"window": 20 * SECOND, "window_margin": SECOND}, "setting window = '20s': at least 1m with"),
        ({"fan_out_consumer": None}, "setting fan_out_consumer is required with reading=fan_out"),
        ({"reading": Reading.POLLING}, "only with reading=fan_out"),
        ({"fan_out_consumer": CONSUMER.replace("events", "others")}, "a consumer of the stream events"),
        ({"fan_out_consumer": "orders"}, "the ARN of a consumer of the stream events"),
        ({"fan_out_consumer": "a consumer"}, "the ARN of a consumer that is registered"),
        ({"register_fan_out": True}, "only with streams and reading=fan_out"),
        ({"maximum_batching_window": SECOND}, "0s with reading=fan_out"),
    ],
)
def test_fan_out_needs_a_registered_consumer_and_windows_of_minutes(given: dict[str, Any], refusal: str) -> None:
    fitting = {
        "mode": Mode.CONTINUOUS,
        "reading": Reading.FAN_OUT,
        "fan_out_consumer": CONSUMER,
        "window": MINUTE,
    }
    replace(PLAIN, **fitting)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=refusal):
        replace(PLAIN, **{**fitting, **given})


def test_a_destination_that_nothing_comes_to_is_refused() -> None:
    alone = replace(PLAIN, on_failure="arn:aws:s3:::given-up")
    with pytest.raises(SettingsError, match="only with maximum_retry_attempts or maximum_record_age"):
        check_sets_aside(alone)
    check_sets_aside(replace(alone, maximum_retry_attempts=0))
    check_sets_aside(PLAIN)


def test_a_handler_timeout_that_no_call_could_reach_is_refused() -> None:
    """On Lambda it would be cut without a word."""
    with pytest.raises(SettingsError, match="setting handler_timeout = '20m': at most 890s: the function's"):
        check_window_fits(replace(PLAIN, handler_timeout=20 * MINUTE), 15 * MINUTE)
    check_window_fits(replace(PLAIN, handler_timeout=890 * SECOND), 15 * MINUTE)


@pytest.mark.parametrize("text", ["36526d", "3000000d", "999999999999999999d"])
def test_a_duration_stays_in_the_calendar(text: str) -> None:
    with pytest.raises(SettingsError, match="at most 36,525 days"):
        parse_duration("until", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-23T18:00:00+01:00", datetime(2026, 11, 23, 17, tzinfo=UTC)),
        ("2026-11-23T18:00:00", None),
        ("yesterday", None),
        ("0001-01-01T00:00:00+05:00", None),
        ("9999-12-31T23:59:59-05:00", None),
    ],
)
def test_a_moment_has_a_zone_and_stays_in_the_calendar(text: str, expected: datetime | None) -> None:
    assert parse_moment(text) == expected


LINKS = {
    "SERVICE_HOST": "10.0.12.7",
    "SERVICE_PORT": "8080",
    "SERVICE_PORT_HTTP": "8080",
    "PORT": "tcp://10.0.12.7:8080",
    "PORT_8080_TCP": "tcp://10.0.12.7:8080",
    "PORT_8080_TCP_PROTO": "tcp",
    "PORT_8080_TCP_PORT": "8080",
    "PORT_8080_TCP_ADDR": "10.0.12.7",
    "PORT_53_UDP": "udp://10.0.12.7:53",
}
"""What Kubernetes sets for a service with ports, after the service's name."""


@pytest.mark.parametrize("service", ["SUBLET", "SUBLET_CONSOLE", "SUBLET_ORDERS_2"])
def test_a_service_s_variables_in_kubernetes_are_no_settings(service: str) -> None:
    given = {"SUBLET_APPLICATION": "orders", "SUBLET_STREAM": "events", "SUBLET_FAILOVER_TIME": "30s"}
    links = {f"{service}_{name}": value for name, value in LINKS.items()}
    found = Settings.from_environment(given | links)
    assert found == Settings.from_environment(given)


@pytest.mark.parametrize("variable", ["SUBLET_PORT", "SUBLET_PORT_8080_TCP", "SUBLET_SERVICE_PORT", "SUBLET_A_PORT"])
def test_a_variable_like_a_service_s_is_refused_where_there_is_no_such_service(variable: str) -> None:
    given = {"SUBLET_APPLICATION": "orders", "SUBLET_STREAM": "events", "SUBLET_B_SERVICE_HOST": "10.0.12.7"}
    with pytest.raises(SettingsError, match=variable):
        Settings.from_environment(given | {variable: "8080"})
