"""`sublet run`: consumes a stream in this process."""

from __future__ import annotations

import logging
import os
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.command_line.command import Command
from sublet.command_line.settings_options import add_settings, settings_of
from sublet.command_line.terminal_text import HarmlessLines
from sublet.errors import SettingsError
from sublet.settings import DEFINITIONS, OnlyFor, Reading, Settings, check_sets_aside
from sublet.settings.value import variable_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sublet.aws.account import AwsAccount
    from sublet.aws.standard_output import Output
    from sublet.ports import Signal

LOG_LEVEL = "POWERTOOLS_LOG_LEVEL"

DESCRIPTION = """\
Consume a stream in this process until SIGTERM or Ctrl-C; then checkpoint and release every lease. After SIGTERM it
first tells the application's other processes that it leaves, and continues until they are ready to take over, for 8
seconds at most. A second signal, or the end of drain_timeout after the first, ends it at once, and it names the leases
that it leaves. It exits by itself with status 70 if only a new process could continue: handler calls hang in all its
slots, or it gets no more threads or file descriptors.

Any number of processes share an application's leases, also with Lambda deployments of sublet and with KCL fleets. The
application's tables are created if they are missing: the lease table, in KCL's own format, and <application>-sightings.

Each setting can also be set in the environment: --failover-time 1m is SUBLET_FAILOVER_TIME=1m."""

EXAMPLES = """\
examples:
  sublet run --application orders-audit --stream orders --handler orders:handle
  SUBLET_STREAM=orders sublet run --application orders-audit --handler orders:handle --failover-time 30s --no-create
  sublet run --application orders-audit --stream orders --handler orders:handle --register orders-audit"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.usage = f"{parser.prog} --application TEXT --stream TEXT --handler MODULE:FUNCTION [options]"
    parser.add_argument(
        "--no-create", action="store_true", help="refuse to run if a table is missing, instead of creating it"
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="continue with the application's leases on this stream, whichever stream they belonged to before",
    )
    parser.add_argument(
        "--register",
        metavar="CONSUMER",
        help="read by push (reading=fan_out) as the stream's fan-out consumer of this name, and register it if it is "
        "missing; "
        "with --streams, on each stream as it is found. AWS charges for it until you deregister it; this command "
        "never does",
    )
    parser.add_argument(
        "--log-format",
        choices=["text", "json"],
        help="of the log on standard output: json also has the metrics, for CloudWatch; text has none, for people to "
        "read "
        "(default: text in a terminal, otherwise json)",
    )
    add_settings(parser)


def run_consumer(options: Namespace) -> int:
    from sublet.system.heap import collect_seldom

    collect_seldom()  # before the imports, which would be searched again and again
    from sublet.aws.account import AwsAccount
    from sublet.aws.standard_output import STANDARD_OUTPUT
    from sublet.engine.manager.adoption import adopt_stream
    from sublet.errors import ProcessSpent
    from sublet.handlers.load import load_handler
    from sublet.reading.pushing import UnregisteredConsumer
    from sublet.runtimes.ending import SPENT, end_process, stop_at_signals, stops
    from sublet.runtimes.process import ConsumerProcess
    from sublet.system.heap import use_one_heap
    from sublet.system.threads import ThreadTasks

    use_one_heap()
    settings = given_settings(options, os.environ)
    check_sets_aside(settings)
    sys.path.insert(0, str(Path.cwd()))  # like `python -m`: finds a handler in this folder
    load_handler(settings.handler, settings)  # a handler that cannot be loaded is refused before any call to AWS
    tasks = ThreadTasks()
    told = stops(tasks)  # not awaited at the end, so that drain_timeout covers the handler's exit hooks too
    running: list[ConsumerProcess] = []
    stop_at_signals(
        told, settings.drain_timeout, tasks, lambda: [left for process in running for left in process.left()]
    )
    level = log_level(os.environ)
    is_text = options.log_format == "text" or (options.log_format is None and sys.stdout.isatty())
    if is_text:
        log_as_text(STANDARD_OUTPUT, level)
        if options.log_format is None:  # a container may have a terminal, and alarms that wait for metrics
            _say("standard output is a terminal, so the log is text, without metrics; --log-format json has both")
    account = AwsAccount(output=None if is_text else STANDARD_OUTPUT)
    wanted = options.register is not None and settings.streams is None
    if wanted:
        settings = _pushed_to(settings, options.register, account, told.stop)
    ports, settings = account.compose(settings, told.stop, may_create=not options.no_create, say=_say)
    if wanted and settings.fan_out_consumer is None:
        ports = replace(ports, pushes=UnregisteredConsumer())
    if options.adopt:
        adopt_stream(ports)
    collect_seldom()
    process = ConsumerProcess(ports, load_handler(settings.handler, settings), settings, told.stop, told.leaving)
    running.append(process)
    try:
        process.run()
    except ProcessSpent as spent:
        _say(str(spent))
        end_process(SPENT)
    if process.has_hung_calls:
        end_process(0)
    return 0


def given_settings(options: Namespace, environment: Mapping[str, str]) -> Settings:
    """With --register, one stream is polled until its consumer is registered: only then is there an ARN to read as."""
    _check_runtime(environment)
    if options.register is None:
        return settings_of(options, environment)
    elsewhere = ("streams", "fan_out_consumer")
    if all(getattr(options, name) is None and variable_of(name) not in environment for name in elsewhere):
        options.reading = Reading.POLLING.value
    settings = settings_of(options, environment)
    checked = reading_as(settings, options.register)
    return settings if settings.streams is None else checked


SEEN_BY_HANDLERS = "invoke_identity_arn"
"""A setting of functions that a process takes too: it is in the events that a handler of Lambda's events gets."""


def _check_runtime(environment: Mapping[str, str]) -> None:
    """Raises SettingsError for a variable that would be ignored here. One that has its default is none: the constructs
    state all settings.
    """
    for name, definition in DEFINITIONS.items():
        text = None if name == SEEN_BY_HANDLERS else environment.get(variable_of(name))
        if definition.only is OnlyFor.LAMBDA and text is not None and definition.value_of(text) != definition.default:
            raise SettingsError(variable_of(name), text, f"only for {definition.only.described}")


def log_as_text(output: Output, level: str) -> None:
    """Writes sublet's log lines as text, and the handler's warnings if nothing else takes them.

    Where the handler has configured logging, by Python's or Powertools' means, that stays as it is.
    """
    lines = logging.StreamHandler(output)
    lines.setFormatter(HarmlessLines("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    ours = logging.getLogger("sublet")
    ours.addHandler(lines)
    ours.setLevel(level)
    ours.propagate = False  # otherwise the root logger's handlers would write each line again
    warnings = logging.StreamHandler(output)
    warnings.setFormatter(lines.formatter)
    warnings.setLevel(logging.WARNING)
    logging.lastResort = warnings


def log_level(environment: Mapping[str, str]) -> str:
    """Returns the level of sublet's own log lines, which Powertools' Logger takes from the same variable."""
    level = (environment.get(LOG_LEVEL) or "INFO").upper()
    if level not in logging.getLevelNamesMapping():
        raise SettingsError(LOG_LEVEL, environment[LOG_LEVEL], "DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return level


def reading_as(settings: Settings, name: str, arn: str | None = None) -> Settings:
    """Returns the settings for reading as the fan-out consumer `arn`. Without an ARN, this only checks that the
    settings allow fan-out.

    With several streams, each is read as its fan-out consumer of this name, which is registered if it is missing.
    """
    if settings.fan_out_consumer is not None:
        raise SettingsError(
            "fan_out_consumer", settings.fan_out_consumer, "not allowed with --register, which finds the ARN"
        )
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name):
        raise SettingsError("register", name, "a consumer's name, 1 to 128 of A-Z a-z 0-9 _ . -")
    if settings.streams is not None:
        return replace(settings, reading=Reading.FAN_OUT, fan_out_consumer=name, register_fan_out=True)
    unknown = f"arn:aws:kinesis:us-east-1:000000000000:stream/{settings.stream}/consumer/{name}:0"
    return replace(settings, reading=Reading.FAN_OUT, fan_out_consumer=arn or unknown)


def _pushed_to(settings: Settings, name: str, account: AwsAccount, stop: Signal) -> Settings:
    """Registers the consumer. If the stream has no room for another one, the stream is polled."""
    consumer = account.registered(settings, name, stop)
    if consumer is None:
        account.log.warning(
            "the stream cannot have more fan-out consumers, so it is polled instead",
            stream=settings.stream,
            consumer=name,
        )
        _say(
            f"stream {settings.stream} cannot have more fan-out consumers, so it is polled. Deregister one, and start "
            "again"
        )
        return settings
    done = "registered" if consumer.is_new else "reading as"
    _say(
        f"{done} the fan-out consumer {name}; AWS charges for it, by the hour and shard, until you deregister it:\n"
        f"  aws kinesis deregister-stream-consumer --consumer-arn {consumer.arn}"
    )
    return reading_as(settings, name, consumer.arn)


def _say(line: str) -> None:
    print(f"sublet: {line}", file=sys.stderr, flush=True)


COMMAND = Command("run", "consume a stream in this process until SIGTERM or Ctrl-C", add_arguments, run_consumer)
