"""`sublet applications`: every application of the account, worst first."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import printable
from sublet.decisions.status.shard_status import WORST_FIRST
from sublet.operate.cli.options.looking import HOME_AND_CLEAR, LOOKS_EVERY
from sublet.operate.cli.text.columns import name_width
from sublet.operate.formatting import lag_text, shortened, time_text
from sublet.operate.rules.fleet_json import statuses_json
from sublet.protocol.stream_identity import stream_settings
from sublet.protocol.stream_key import stream_key_of
from sublet.settings import DEFINITIONS
from sublet.settings.value import variable_of

if TYPE_CHECKING:
    from sublet.decisions.status.fleet_status import FleetStatus
    from sublet.operate.rules.application_status import ApplicationStatus

DESCRIPTION = """\
Show every application of this account and region, worst first: its shards by status, its worst lag, its live workers,
when a lease was last written to, and its stream. An application is a DynamoDB table with the key of KCL's lease table,
so those of KCL 1, 2 and 3 are listed too. Read-only. It lists the tables, describes each, and reads each lease table
whole; it asks no stream. `sublet status --help` says what the statuses mean.

--tag selects applications whose lease table has a tag; tables that sublet creates have sublet:application. Then only
these are described and read. AWS is asked for them once per hundred (tag:GetResources; a new tag may take a minute to
be found).

The lag and the last write are known where sublet owns the leases, or where it ticks beside the owners. A table that
cannot be read is listed with the reason.

The exit code is 0 if all is well, 1 if an application has a bad shard or cannot be read, and 2 for an error."""

EXAMPLES = """\
examples:
  sublet applications
  sublet applications --unhealthy --json
  sublet applications --watch --stream orders
  sublet applications --tag team=orders --tag sublet:application"""

ANY = "any"
NAME_WIDTH, BESIDE_NAMES = 32, 92
"""The least width of an application's name, and the width of a line's other columns with the last one's heading."""

SETTINGS = ("failover_time", "group_separator")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--tag",
        metavar="NAME[=VALUE]",
        dest="tags",
        action="append",
        default=[],
        type=tag,
        help="only those whose lease table has this tag; may be repeated",
    )
    parser.add_argument("--unhealthy", action="store_true", help="only those that make the exit code 1")
    parser.add_argument("--watch", action="store_true", help="look every ten seconds, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="as JSON; with --watch a line for each look")
    parser.add_argument("--stream", dest="one_stream", metavar="TEXT", help="only those that read this stream")
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def tag(text: str) -> tuple[str, str | None]:
    name, given, value = text.partition("=")
    if not name:
        raise ArgumentTypeError(f"{text!r} has no name: NAME, or NAME=VALUE")
    return name, value if given else None


def show_applications(options: Namespace) -> int:
    from sublet.aws.account import AwsAccount
    from sublet.operate.applications import applications
    from sublet.system.threads import ThreadTasks

    environment = {**os.environ, variable_of("application"): ANY}
    tags, pause = dict(options.tags), ThreadTasks().signal()
    settings, account = settings_of(options, environment, required=()), AwsAccount()
    while True:
        found = [one for one in applications(account, settings, tags) if reads(one, options.one_stream)]
        if tags and not found:
            print("sublet: no lease table of this account and region has these tags", file=sys.stderr)
        show(found, options, account.clock.now())
        code = 1 if any(one.is_bad for one in found) else 0
        if not options.watch:
            return code
        try:
            pause.wait(LOOKS_EVERY)
        except KeyboardInterrupt:
            return code


def reads(one: ApplicationStatus, stream: str | None) -> bool:
    """Whether the application is known to read the stream, by name or ARN; True if none is given."""
    if stream is None:
        return True
    name = stream_settings(stream)["stream"]
    shards = () if one.status is None else one.status.shards
    several = {key.stream for shard in shards if (key := stream_key_of(shard.shard_id))}
    own = one.stream or ""
    return name in several or (own == stream if stream.startswith("arn:") else own.rpartition("/")[2] == name)


def show(found: Iterable[ApplicationStatus], options: Namespace, at: datetime) -> None:
    """Prints one look. With --watch in a terminal it takes the place of the one before, as far as the terminal has
    room.
    """
    shown = [one for one in found if one.is_bad or not options.unhealthy]
    if options.json:
        print(json.dumps([as_json(one) for one in shown], indent=None if options.watch else 2), flush=True)
        return
    lines = list(lines_of(shown))
    if options.watch and sys.stdout.isatty():
        columns, rows = shutil.get_terminal_size()
        left_out = len(lines) - (rows - 2)
        more = [f"... and {left_out} more lines"] if left_out > 0 else []
        lines = [HOME_AND_CLEAR + f"at {time_text(at)}", *lines[: rows - 2 - len(more)], *more]
        lines = [lines[0], *(line[: columns - 1] for line in lines[1:])]
    elif options.watch:
        lines = [*lines, ""]
    print("\n".join(lines), flush=True)


def lines_of(found: Iterable[ApplicationStatus]) -> Iterable[str]:
    found = tuple(found)
    width = name_width((printable(one.name) for one in found), NAME_WIDTH, BESIDE_NAMES)
    yield f"{'application':<{width}} {'worst':<8} {'lag':>6} {'workers':>8}  {'last write':<20}  {'shards':<36} stream"
    for one in found:
        yield _line(one, width)
        if one.problem is not None:
            yield f"  {printable(one.problem)}"


def _line(one: ApplicationStatus, width: int) -> str:
    status, name = one.status, f"{shortened(printable(one.name), width):<{width}}"
    if status is None:
        return f"{name} cannot be read"
    worst = "-" if one.worst_status is None else one.worst_status.value
    lag = lag_text(status.lag, is_at_least=status.lag_is_at_least)
    last = "-" if one.last_write is None else time_text(one.last_write)
    stream = "-" if one.stream is None else printable(one.stream.rpartition("/")[2])
    return f"{name} {worst:<8} {lag:>6} {len(status.workers):>8}  {last:<20}  {_shards(status):<36} {stream}"


def _shards(status: FleetStatus) -> str:
    counts = [f"{status.statuses[each]} {each}" for each in WORST_FIRST if each in status.statuses]
    unreadable = [f"{len(status.malformed)} unreadable"] if status.malformed else []
    others = [f"{status.multi_stream} of several streams"] if status.multi_stream else []
    return ", ".join([*counts, *others, *unreadable]) or "none"


def as_json(one: ApplicationStatus) -> dict[str, object]:
    """Shows times in ISO 8601 and durations in seconds."""
    status = one.status
    worst = None if one.worst_status is None else one.worst_status.value
    known: dict[str, object] = {}
    if status is not None:
        known = {
            "statuses": statuses_json(status),
            "words": statuses_json(status),  # its name in 0.2
            "lag": None if status.lag is None else status.lag.total_seconds(),
            "lag_is_at_least": status.lag_is_at_least,
            "workers": dict(status.workers),
            "multi_stream": status.multi_stream,
            "malformed": [{"row": row.lease_key, "problem": row.problem} for row in status.malformed],
        }
    return {
        "application": one.name,
        "status": worst,
        "word": worst,  # its name in 0.2
        "stream": one.stream,
        "last_write": None if one.last_write is None else one.last_write.isoformat(),
        "problem": one.problem,
        **known,
    }


COMMAND = Command(
    "applications", "list every application of the account, worst first", add_arguments, show_applications
)
