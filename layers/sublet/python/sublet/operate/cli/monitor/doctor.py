"""`sublet doctor`: finds what is wrong with an application, its stream and its account, and says what to do about
it.
"""

from __future__ import annotations

import json
import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.command_line.terminal_text import printable
from sublet.errors import SettingsError, StreamError
from sublet.operate.cli.options.operated import operated, settings_meant
from sublet.operate.formatting import time_text
from sublet.operate.rules.doctor import Finding, Severity, findings_of_each
from sublet.operate.rules.doctor_account import RULES
from sublet.protocol.otlp import has_collector
from sublet.settings import DEFINITIONS, MetricsExport
from sublet.settings.value import variable_of

if TYPE_CHECKING:
    from sublet.operate.doctor import Doctor
    from sublet.operate.rules.examination import Examination

DESCRIPTION = """\
Check everything that an application needs: its settings, these credentials' permissions, whether lease table and stream
belong together, the clock, shards without a lease and leases without a shard, lag against retention, the stream's mode,
hot shards, throttling, quotas that are nearly used up, alarms, and what was set aside. Each finding says what to do. It
changes nothing, and works with any lease table of KCL 1, 2 or 3.

A check that these credentials may not make is listed as such; the others are still made. With --as-consumer it also
tries a consumer's writes, under conditions that cannot hold, so that nothing is written: use the consumer's own
credentials for that.

It asks IAM what the deployed functions' roles may do (states:DescribeStateMachine, lambda:GetFunctionConfiguration and
iam:SimulatePrincipalPolicy). For a process or a container, name its role with --role. IAM's simulation ignores the
policies of streams and keys. If the application reads several streams, it checks each, or only the one of --stream.

The exit code is 0 if nothing is bad, 1 if something is (with --strict also for warnings and for checks that could not
be made), and 2 for an error."""

EXAMPLES = """\
examples:
  sublet doctor --application orders-audit --stream orders
  sublet doctor --application orders-audit --stream orders --strict --json
  sublet doctor --application orders-audit --stream orders --as-consumer --quiet
  sublet doctor --application orders-audit --stream orders --role arn:aws:iam::123456789012:role/orders-audit
  sublet doctor --application orders-audit --stream orders --show-set-aside \\
      --on-failure arn:aws:sqs:eu-west-1:123456789012:given-up"""

ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/\S+")
REQUIRED = ("application", "stream")
SETTINGS = ("application", "stream", "on_failure", "failover_time", "metrics_export")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--role",
        metavar="ARN",
        type=role,
        help="check this role of a process, instead of the deployed functions' roles",
    )
    parser.add_argument("--as-consumer", action="store_true", help="check the permission to write leases too")
    parser.add_argument(
        "--show-set-aside",
        action="store_true",
        help="show the first ten batches that a queue keeps, as a bucket's are shown without it; SQS counts each as "
        "received once more",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit code 1 for warnings and for what could not be checked"
    )
    parser.add_argument("--quiet", action="store_true", help="show only what is not well")
    parser.add_argument("--json", action="store_true", help="as JSON")
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def role(text: str) -> str:
    if not ROLE.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is not the ARN of a role, such as arn:aws:iam::123456789012:role/NAME")
    return text


def run(options: Namespace) -> int:
    examined = _doctor(options).examine_each()
    found = findings_of_each(examined, RULES)
    shown = [each for each in found if not options.quiet or each.severity is not Severity.WELL]
    if options.json:
        print(json.dumps(as_json(examined, shown), indent=2))
    else:
        print("\n".join(lines_of(examined, found, shown)))
    return exit_code(found, strict=options.strict)


def _doctor(options: Namespace) -> Doctor:
    from sublet.aws.account import AwsAccount
    from sublet.aws.ports import with_stream_arn
    from sublet.operate.aws.inspection import AwsInspection
    from sublet.operate.aws.ports import CommandPorts
    from sublet.operate.doctor import Doctor

    variables, refused = accepted(options, os.environ)
    settings, ports = operated(options, REQUIRED, variables)
    if settings.streams is None:
        with suppress(StreamError):  # the check of the stream reports it
            settings = with_stream_arn(settings)
            ports = CommandPorts(settings)
    return Doctor(
        ports,
        settings,
        AwsAccount(),
        AwsInspection(settings, settings.stream_arn),
        refused,
        asks_writes=options.as_consumer,
        role=options.role,
        receives=options.show_set_aside,
        to_cloudwatch=settings.metrics_export is MetricsExport.OTLP and not has_collector(os.environ),
    )


def accepted(options: Namespace, environment: Mapping[str, str]) -> tuple[Mapping[str, str], str | None]:
    """Returns the variables if their settings are valid. If one is refused, returns only those that name the
    application and its streams, and the reason, so that everything else is still checked. Raises SettingsError if these
    are refused.
    """
    try:
        settings_meant(options, REQUIRED, environment)
    except SettingsError as problem:
        needed = {variable_of(name) for name in (*REQUIRED, "streams")}
        alone = {name: text for name, text in environment.items() if name in needed}
        settings_meant(options, REQUIRED, alone)
        return alone, str(problem)
    return environment, None


def exit_code(found: Iterable[Finding], *, strict: bool) -> int:
    failing = {Severity.BAD, Severity.WARNING, Severity.NOT_CHECKED} if strict else {Severity.BAD}
    return 1 if any(each.severity in failing for each in found) else 0


def lines_of(examined: Sequence[Examination], found: Sequence[Finding], shown: Iterable[Finding]) -> Iterable[str]:
    """Yields a summary line, then the findings, the worst first."""
    counts = Counter(each.severity for each in found)
    counted = ", ".join(f"{counts[severity]} {severity}" for severity in Severity if counts[severity])
    streams = ", ".join(each.stream for each in examined)
    yield f"{examined[0].application} on {streams} at {time_text(examined[0].at)}: {counted}"
    for severity in Severity:
        for each in shown:
            if each.severity is severity:
                of_stream = each.stream and f"stream {each.stream}"
                where = "".join(f"{printable(part)}: " for part in (of_stream, each.where) if part)
                yield f"{severity:<11}  {each.check:<22}  {where}{printable(each.what)}"
                for line in each.details:
                    yield f"{'':<11}  {'':<22}  {printable(line)}"
                if each.then:
                    yield f"{'':<11}  {'':<22}  {each.then}"


def as_json(examined: Sequence[Examination], shown: Iterable[Finding]) -> dict[str, object]:
    """`stream` is null if there are several; the findings then name theirs."""
    first, *others = examined
    return {
        "at": first.at.isoformat(),
        "application": first.application,
        "stream": None if others else first.stream,
        "streams": [each.stream for each in examined],
        "findings": [
            {
                "check": each.check.value,
                "severity": each.severity.value,
                "stream": each.stream or None,
                "where": each.where,
                "what": each.what,
                "then": each.then,
                "details": list(each.details),
            }
            for each in shown
        ],
    }


COMMAND = Command("doctor", "find what is wrong, where, and what to do about it", add_arguments, run)
