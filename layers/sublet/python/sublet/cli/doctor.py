"""`sublet doctor`: what is wrong with an application, its stream and its account, and what to do about it."""

from __future__ import annotations

import json
import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.settings_options import add_setting, settings_of
from sublet.cli.shown import printable, time_text
from sublet.decisions.doctor import Finding, Severity, findings
from sublet.decisions.doctor_account import RULES
from sublet.errors import SettingsError, StreamError
from sublet.settings import DEFINITIONS, PREFIX, Settings

if TYPE_CHECKING:
    from sublet.decisions.examination import Examined
    from sublet.operate.doctor import Doctor

DESCRIPTION = """\
Check everything that an application needs: its settings, these credentials' permissions, whether lease table and stream belong
together, the clock, shards without a lease and leases without a shard, lag against retention, the stream's mode, hot shards,
throttling, quotas that are nearly used up, alarms, and what was set aside. Each finding says what to do. It changes nothing, and
works with any lease table of KCL 1, 2 or 3.

A check that these credentials may not make is named, and hides no other. With --as-consumer it also tries a consumer's writes,
under conditions that cannot hold, so that nothing is written: use the consumer's own credentials for that. IAM is
asked what the deployed functions' roles may do (states:DescribeStateMachine, lambda:GetFunctionConfiguration and
iam:SimulatePrincipalPolicy); for a process or a container, --role names its role. The policies of a stream or a key are not part
of that simulation.

The exit code is 0 if nothing is bad, 1 if something is (with --strict also for warnings and for checks that could not be made),
and 2 for an error."""

EXAMPLES = """\
examples:
  sublet doctor --application orders-audit --stream orders
  sublet doctor --application orders-audit --stream orders --strict --json
  sublet doctor --application orders-audit --stream orders --as-consumer --quiet
  sublet doctor --application orders-audit --stream orders --role arn:aws:iam::123456789012:role/orders-audit"""

ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/\S+")
SETTINGS = ("application", "stream", "on_failure", "failover_time")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--role",
        metavar="ARN",
        type=role,
        help="of a process: judge it instead of the deployed functions' roles",
    )
    parser.add_argument("--as-consumer", action="store_true", help="check the permission to write leases too")
    parser.add_argument(
        "--strict", action="store_true", help="exit code 1 for warnings and for what could not be checked"
    )
    parser.add_argument("--quiet", action="store_true", help="only what is not well")
    parser.add_argument("--json", action="store_true", help="as JSON")
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def role(text: str) -> str:
    if not ROLE.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is no role: arn:aws:iam::ACCOUNT:role/NAME")
    return text


def run(options: Namespace) -> int:
    examined = _doctor(options).examine()
    found = findings(examined, RULES)
    shown = [each for each in found if not options.quiet or each.severity is not Severity.WELL]
    if options.json:
        print(json.dumps(as_json(examined, shown), indent=2))
    else:
        print("\n".join(lines_of(examined, found, shown)))
    return exit_code(found, strict=options.strict)


def _doctor(options: Namespace) -> Doctor:
    from sublet.aws.account import AwsAccount
    from sublet.aws.inspection import AwsInspection
    from sublet.aws.ports import aws_ports, with_stream_arn
    from sublet.operate.doctor import Doctor

    settings, refused = accepted_settings(options, os.environ)
    with suppress(StreamError):  # the check of the stream says why
        settings = with_stream_arn(settings)
    return Doctor(
        aws_ports(settings, "sublet", output=None),
        settings,
        AwsAccount(),
        AwsInspection(settings, settings.stream_arn),
        refused,
        asks_writes=options.as_consumer,
        role=options.role,
    )


def accepted_settings(options: Namespace, environment: Mapping[str, str]) -> tuple[Settings, str | None]:
    """If a variable is refused, the settings without any other, and why: the rest is checked all the same."""
    try:
        return settings_of(options, environment, required=("application", "stream")), None
    except SettingsError as problem:
        needed = {f"{PREFIX}{name.upper()}" for name in ("application", "stream")}
        alone = {name: text for name, text in environment.items() if name in needed}
        return settings_of(options, alone, required=("application", "stream")), str(problem)


def exit_code(found: Iterable[Finding], *, strict: bool) -> int:
    failing = {Severity.BAD, Severity.WARNING, Severity.NOT_CHECKED} if strict else {Severity.BAD}
    return 1 if any(each.severity in failing for each in found) else 0


def lines_of(examined: Examined, found: Sequence[Finding], shown: Iterable[Finding]) -> Iterable[str]:
    """A line for all, then the findings, the worst first."""
    counts = Counter(each.severity for each in found)
    counted = ", ".join(f"{counts[severity]} {severity}" for severity in Severity if counts[severity])
    yield f"{examined.application} on {examined.stream} at {time_text(examined.at)}: {counted}"
    for severity in Severity:
        for each in shown:
            if each.severity is severity:
                where = f"{printable(each.where)}: " if each.where else ""
                yield f"{severity:<11}  {each.check:<22}  {where}{printable(each.what)}"
                if each.then:
                    yield f"{'':<11}  {'':<22}  {each.then}"


def as_json(examined: Examined, shown: Iterable[Finding]) -> dict[str, object]:
    return {
        "at": examined.at.isoformat(),
        "application": examined.application,
        "stream": examined.stream,
        "findings": [
            {
                "check": each.check.value,
                "severity": each.severity.value,
                "where": each.where,
                "what": each.what,
                "then": each.then,
            }
            for each in shown
        ],
    }


COMMAND = Command("doctor", "what is wrong, where, and what to do about it", add_arguments, run)
