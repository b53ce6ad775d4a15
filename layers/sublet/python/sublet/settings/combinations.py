"""Checks over several settings, and Kinesis' own limits."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.errors import SettingsError
from sublet.settings.choices import Checkpointing, HandlerContract, Mode, Reading
from sublet.settings.stream_filters import check_criteria
from sublet.settings.text import duration_text

if TYPE_CHECKING:
    from sublet.settings.value import Settings

POLL_LIMIT_MAX = 10_000
"""Kinesis: GetRecords returns at most 10,000 records (and 10 MB)."""

READ_BYTES_PER_SECOND = 2 * 2**20
"""Kinesis' limit for one shard, shared by all its consumers. A larger reply also uses up the following seconds."""

POLLS_PER_SECOND_MAX = 5
"""Kinesis' limit of GetRecords calls a second on one shard, shared by all its consumers."""

CONSUMER_NAME_MAX = 128
"""Kinesis: the longest name of a fan-out consumer (RegisterStreamConsumer)."""

FAN_OUT_WINDOW_MIN = timedelta(minutes=1)
"""The shortest window of a consumer that reads by subscriptions: between two windows a shard is not read for some
seconds.
"""


def check_together(settings: Settings) -> None:
    """Check a Settings during its creation. Raises SettingsError."""
    _check_contract(settings)
    _check_streams(settings)
    if settings.stream_arn is not None and not settings.stream_arn.endswith(f":stream/{settings.stream}"):
        raise SettingsError("stream_arn", settings.stream_arn, f"the ARN of the stream {settings.stream}")
    if settings.heartbeat_interval * 3 > settings.failover_time:
        raise SettingsError(
            "heartbeat_interval",
            duration_text(settings.heartbeat_interval),
            f"at most a third of failover_time ({duration_text(settings.failover_time)}), so that two may be lost",
        )
    _check_giving_up(settings)
    _check_format(settings)
    if settings.filter_criteria is not None:
        check_criteria(settings.filter_criteria, settings.streams)
    if settings.window_margin * 2 > settings.window:
        raise SettingsError(
            "window_margin",
            duration_text(settings.window_margin),
            f"at most half of window ({duration_text(settings.window)})",
        )
    _check_reading(settings)
    if settings.idle_poll_interval < settings.poll_interval:
        raise SettingsError(
            "idle_poll_interval",
            duration_text(settings.idle_poll_interval),
            "at least poll_interval: idle shards are polled less",
        )


def _check_streams(settings: Settings) -> None:
    if not settings.stream and settings.streams is None:
        raise SettingsError("stream", settings.stream, "required; or streams, for several")
    if settings.streams is None:
        return
    if settings.stream or settings.stream_arn is not None:
        raise SettingsError(
            "stream", settings.stream or settings.stream_arn, "not allowed with streams, which names all streams"
        )
    if settings.former_streams_wait < 2 * settings.stream_discovery_interval:
        raise SettingsError(
            "former_streams_wait",
            duration_text(settings.former_streams_wait),
            f"at least twice stream_discovery_interval ({duration_text(settings.stream_discovery_interval)})",
        )


def _by_hand(settings: Settings) -> tuple[str, str]:
    """The setting that makes the handler checkpoint by itself, and its value."""
    if settings.handler_contract is HandlerContract.RECORD_PROCESSOR:
        return "handler_contract", settings.handler_contract.value
    return "checkpointing", Checkpointing.MANUAL.value


def _check_reading(settings: Settings) -> None:
    consumer, fans_out = settings.fan_out_consumer, settings.reading is Reading.FAN_OUT
    if fans_out and settings.mode is Mode.CATCH_UP:
        raise SettingsError(
            "reading",
            settings.reading.value,
            "only with mode=continuous: a catch_up window leaves a shard within seconds of its tip, and the next "
            "subscription has to wait for five seconds",
        )
    if fans_out and settings.window < FAN_OUT_WINDOW_MIN:
        raise SettingsError(
            "window",
            duration_text(settings.window),
            f"at least {duration_text(FAN_OUT_WINDOW_MIN)} with reading=fan_out, whose subscriptions last for five "
            "minutes",
        )
    if fans_out and settings.maximum_batching_window:
        raise SettingsError(
            "maximum_batching_window",
            duration_text(settings.maximum_batching_window),
            "0s with reading=fan_out: the service sends records as they arrive",
        )
    if consumer is not None and not fans_out:
        raise SettingsError("fan_out_consumer", consumer, "only with reading=fan_out")
    if settings.register_fan_out and (settings.streams is None or not fans_out):
        raise SettingsError(
            "register_fan_out",
            True,
            "only with streams and reading=fan_out; for one stream there is `sublet run --register`",
        )
    if fans_out:
        _check_consumer(settings)


def _check_consumer(settings: Settings) -> None:
    consumer = settings.fan_out_consumer
    if settings.streams is None:
        if consumer is None:
            raise SettingsError(
                "fan_out_consumer", None, "required with reading=fan_out: the ARN of a registered consumer"
            )
        if f":stream/{settings.stream}/" not in consumer:
            raise SettingsError("fan_out_consumer", consumer, f"the ARN of a consumer of the stream {settings.stream}")
    elif consumer is not None and ":" in consumer:
        raise SettingsError(
            "fan_out_consumer",
            consumer,
            "a consumer's name with streams: each stream has a consumer of its own under this name",
        )
    elif len(settings.fan_out_name) > CONSUMER_NAME_MAX:
        raise SettingsError(
            "application",
            settings.application,
            f"at most {CONSUMER_NAME_MAX} characters with fan_out, which reads as consumers of this name; or state "
            "fan_out_consumer, another name",
        )


def _check_giving_up(settings: Settings) -> None:
    if settings.thread_per_lease and settings.parallelization_factor > 1:
        raise SettingsError(
            "thread_per_lease",
            True,
            "false with parallelization_factor, which makes several calls for a lease at once",
        )
    if settings.parallelization_factor > 1 and settings.is_checkpointed_by_hand:
        raise SettingsError(
            "parallelization_factor",
            settings.parallelization_factor,
            "1 with checkpointing=manual or record_processor: a checkpoint would cover what other calls have not done",
        )
    if settings.gives_up and settings.on_failure is None:
        raise SettingsError(
            "on_failure",
            None,
            "required where maximum_retry_attempts or maximum_record_age is given: records that are given up must go "
            "somewhere",
        )
    if settings.gives_up and settings.is_checkpointed_by_hand:
        raise SettingsError(
            *_by_hand(settings),
            "not allowed where records may be given up: a checkpoint past them would cover records that the handler "
            "still keeps",
        )


def _check_contract(settings: Settings) -> None:
    if settings.handler_contract is HandlerContract.LAMBDA_EVENT and settings.checkpointing is Checkpointing.MANUAL:
        raise SettingsError(
            "checkpointing",
            "manual",
            "automatic with handler_contract=lambda_event, whose event has no checkpoint",
        )
    if (
        settings.handler_contract is HandlerContract.RECORD_PROCESSOR
        and settings.checkpointing is Checkpointing.AUTOMATIC
    ):
        raise SettingsError(
            "checkpointing",
            "automatic",
            "manual, or left out, with handler_contract=record_processor, which checkpoints by itself",
        )


def _check_format(settings: Settings) -> None:
    if settings.payload_format is None:
        return
    from sublet.settings.payload_format import parsed_format  # noqa: PLC0415 - most consumers start without it

    parsed_format(settings.payload_format)
    if settings.handler_contract is not HandlerContract.BATCH:
        raise SettingsError(
            "payload_format",
            settings.payload_format,
            "only with handler_contract=batch, whose records have decoded()",
        )


def check_sets_aside(settings: Settings) -> None:
    """Refuse a destination that can never receive a record. Only with a handler: a pull consumer has `term`."""
    if settings.on_failure is not None and not settings.gives_up:
        raise SettingsError(
            "on_failure",
            settings.on_failure,
            "only with maximum_retry_attempts or maximum_record_age: without them no record is ever given up",
        )


def check_window_fits(settings: Settings, function_timeout: timedelta) -> None:
    """Refuse a window that would outlast the Lambda: its timeout must leave window_margin after the window. Refuse a
    handler_timeout that no call could reach: calls are abandoned a third of window_margin before the timeout.
    """
    longest_call = function_timeout - settings.window_margin / 3
    if settings.handler_timeout is not None and settings.handler_timeout > longest_call:
        raise SettingsError(
            "handler_timeout",
            duration_text(settings.handler_timeout),
            f"at most {duration_text(longest_call)}: the function's timeout ({duration_text(function_timeout)}) "
            f"less a third of window_margin ({duration_text(settings.window_margin)})",
        )
    allowed = function_timeout - settings.window_margin
    if settings.window > allowed:
        raise SettingsError(
            "window",
            duration_text(settings.window),
            f"at most {duration_text(allowed)}: the function's timeout ({duration_text(function_timeout)}) "
            f"less window_margin ({duration_text(settings.window_margin)})",
        )
