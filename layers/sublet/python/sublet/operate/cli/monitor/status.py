"""`sublet status`: shows a status for each shard, how far it is behind, and when it will have caught up."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.command_line.terminal_text import harmless, printable
from sublet.decisions.load.sketch import ShardSketch, hottest
from sublet.decisions.plurals import counted
from sublet.decisions.status.shard_status import NOTHING, WORST_FIRST, ShardStatus, worst_first
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.errors import CheckRefused
from sublet.operate.cli.options.arguments import duration
from sublet.operate.cli.options.looking import HOME_AND_CLEAR, LOOKS_EVERY, watch_of
from sublet.operate.cli.text.columns import WHY_BESIDE_OWNERS, owner_text, owner_width
from sublet.operate.cli.text.last_hour import hour_lines
from sublet.operate.formatting import age_text, failure_text, lag_text, time_text
from sublet.operate.hot_shards import key_json, key_text, peak_json, peak_text
from sublet.operate.rules.fleet_json import fleet_json
from sublet.operate.rules.hot_shards import HOT, key_shares
from sublet.operate.rules.last_hour import LastHour
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting, set_aside_json, set_aside_text
from sublet.protocol.control import Order, Pause
from sublet.settings import DEFINITIONS, Settings

if TYPE_CHECKING:
    from sublet.decisions.status.fleet_status import FleetStatus
    from sublet.operate.last_hour_metrics import HourRecorder
    from sublet.operate.status_watch import Watch
    from sublet.ports import Ports

DESCRIPTION = """\
Show how an application stands, worst shard first: each shard's status, its lag in time and the lag's trend, when it
will have caught up, its owner, and the reason for the status. Read-only; works with any lease table of KCL 1, 2 or 3.

  OK        no record waits, or the lag falls
  BEHIND    the position advances, but the lag does not fall
  STALLED   the owner lives, but the position does not advance
  FAILING   the handler has failed more than once with what follows the position, owners
            have died there, or the owner's reads get no answer
  STOPPED   records wait, and no owner writes to the lease
  REWOUND   the position was moved back, and has not come as far again
  WAITING   the shard's parents are not finished
  PAUSED    an operator has paused the shard
  ENDED     the shard is read to its end
  UNKNOWN   not watched for long enough, or it is not known whether records wait (try --probe)

sublet's own workers write lag, trend and forecast into the lease table. For other rows, such as those of Java's KCL,
--probe asks the stream once about each shard. --watch looks every ten seconds until Ctrl-C, and judges by what it has
seen; five minutes are enough. It also draws the last hour, from the application's metrics if CloudWatch has them
(cloudwatch:GetMetricData, once a minute, which costs $0.002 an hour), and otherwise from what it has seen. With
--stream it also shows what retention has trimmed, or soon will; if the application reads several streams, it shows only
that one. With --on-failure, a line says how much was set aside there, and until when it is kept.

For a shard that is not OK, `sublet doctor` says what to do, and `sublet peek` shows the records that wait.

The exit code is 0 if all is well, 1 if a shard is BEHIND, STALLED, FAILING, STOPPED or REWOUND, or a row cannot be
read, and 2 for an error. It is 1 also for a shard that lags as much as --fail-behind allows, whatever its status, and,
with --strict, if a shard is UNKNOWN or there are no leases: then 0 means that all is known to be well."""

EXAMPLES = """\
examples:
  sublet status --application orders-audit
  sublet status --application orders-audit --stream orders --probe
  sublet status --application orders-audit --stream orders --watch
  sublet status --application orders-audit --unhealthy --json
  sublet status --application orders-audit --behind 10m
  sublet status --application orders-audit --fail-behind 10m --strict
  sublet status --application orders-audit --on-failure arn:aws:sqs:us-east-1:123456789012:given-up"""

CONTINUED = " " * 4

SHARD_WIDTH = 21
"""The width of a shard's id. In an application of several streams, the stream's name is added to it."""
BESIDE_OWNERS = 41 + WHY_BESIDE_OWNERS
"""The width of a line's columns other than the shard's id."""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--probe",
        action="store_true",
        help="ask the stream about shards whose rows have no recent lag",
    )
    parser.add_argument("--watch", action="store_true", help="look every ten seconds, until Ctrl-C")
    parser.add_argument("--unhealthy", action="store_true", help="only shards that make the exit code 1")
    parser.add_argument("--behind", metavar="DURATION", type=duration, help="only shards at least this far behind")
    parser.add_argument(
        "--fail-behind",
        metavar="DURATION",
        type=duration,
        help="exit with 1 also if a shard lags at least this much, whatever its status",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 also if a shard is UNKNOWN, or there are no leases",
    )
    parser.add_argument("--owner", metavar="TEXT", help="only shards of owners whose name contains this")
    parser.add_argument("--json", action="store_true", help="as JSON; with --watch a line for each look")
    for name in ("application", "stream", "failover_time", "on_failure"):
        add_setting(parser, DEFINITIONS[name])


def show_status(options: Namespace) -> int:
    from sublet.system.threads import ThreadTasks

    watch, retention = watch_of(options, probes=options.probe)
    recorder = recorder_of(watch) if options.watch and not options.json else None
    screen, pause = Screen(options, watch.settings.application, recorder), ThreadTasks().signal()
    while True:
        found = watch.look(retention)
        screen.show(found, set_aside(watch.settings), hot(watch.ports))
        if not options.watch:
            return judged(found, options)
        try:
            pause.wait(LOOKS_EVERY)
        except KeyboardInterrupt:
            return judged(found, options)


def recorder_of(watch: Watch) -> HourRecorder:
    """Returns a recorder of the application's last hour, from its metrics if CloudWatch has them."""
    from sublet.operate.aws.inspection import AwsInspection
    from sublet.operate.last_hour_metrics import HourRecorder

    inspection = AwsInspection(watch.settings, watch.settings.stream_arn)
    return HourRecorder(inspection.last_hour, watch.ports.clock)


class Screen:
    """Shows each look, as more lines or, with --watch in a terminal, as one screen that changes."""

    def __init__(self, options: Namespace, application: str, recorder: HourRecorder | None = None) -> None:
        self._options, self._application, self._recorder = options, application, recorder
        self._hour = LastHour()
        self._is_live = options.watch and not options.json and sys.stdout.isatty()

    def show(self, found: FleetStatus, aside: SetAsideWaiting | None = None, hot: Sequence[ShardSketch] = ()) -> None:
        if not (found.shards or found.malformed or found.multi_stream or found.of_gone):
            print(f"sublet: application {self._application} has no leases yet", file=sys.stderr)
        text = text_of(found, self._options, self._application, aside, hot)
        if self._options.watch and not self._options.json:
            self._hour = self._hour.after(found)
            if self._recorder is not None:
                self._hour = self._recorder.added_to(self._hour)
            text = "\n".join((*text.splitlines(), *hour_lines(self._hour, found.at)))
        print(f"{HOME_AND_CLEAR}{self._cut(text)}" if self._is_live else text, flush=True)

    def _cut(self, text: str) -> str:
        """Fits the text into the terminal. The worst shards come first and the graph last, so the shards in between are
        left out. A reason that is longer than the line goes on in the next one.
        """
        columns, rows = shutil.get_terminal_size()
        lines, count = text.splitlines(), len(hour_lines(self._hour, self._hour.at))
        graph = [line[: columns - 1] for line in lines[len(lines) - count :]]
        entries = [_wrapped(line, columns - 1) for line in lines[: len(lines) - count]]
        room = rows - 1 - len(graph)
        if sum(map(len, entries)) <= room:
            return "\n".join([*(line for entry in entries for line in entry), *graph])
        shown: list[str] = []
        for number, entry in enumerate(entries):
            if number and len(shown) + len(entry) > room - 1:
                return "\n".join([*shown, f"... and {len(entries) - number} more", *graph])
            shown += entry
        return "\n".join([*shown, *graph])


def _wrapped(line: str, width: int) -> list[str]:
    if line.startswith("shard "):
        return [line[:width].rstrip()]  # the columns' titles
    return wrap(line, width, subsequent_indent=CONTINUED, break_on_hyphens=False, replace_whitespace=False) or [line]


def exit_code(found: FleetStatus) -> int:
    return 1 if found.is_bad else 0


def judged(found: FleetStatus, options: Namespace) -> int:
    """Returns the exit code by the operator's own limits too. These hold for all shards, also those that filters
    hide.
    """
    late = options.fail_behind is not None and any(
        shard.lag is not None and shard.lag >= options.fail_behind for shard in found.shards
    )
    unknown = options.strict and (not found.shards or Status.UNKNOWN in found.statuses)
    return 1 if late or unknown else exit_code(found)


def set_aside(settings: Settings) -> SetAsideWaiting | None:
    """Returns what waits in the failure destination. None if no destination is given, or these credentials may not
    ask.
    """
    if settings.on_failure is None:
        return None
    from sublet.operate.aws.inspection import AwsInspection

    try:
        return AwsInspection(settings, settings.stream_arn).set_aside(settings.on_failure)
    except CheckRefused as problem:
        print(f"sublet: what was set aside is not known: {harmless(str(problem))}", file=sys.stderr)
        return None


def hot(ports: Ports) -> Sequence[ShardSketch]:
    """Returns the sketches of hot shards, the hottest first, or none if they may not be read."""
    from sublet.operate.hot_shards import readable_sketches

    found = tuple(readable_sketches(ports).values())
    return [sketch for sketch in hottest(found) if sketch.heat >= HOT]


def hot_lines(hot: Sequence[ShardSketch], application: str) -> Iterable[str]:
    """Yields which keys load each hot shard. The verdict needs the stream, which `sublet hot` asks."""
    for sketch in hot:
        peak = "" if sketch.worst is None else f", worst second: {peak_text(sketch.worst)}"
        keys = [
            f"; at least {key.at_least:.0%} of its load: {printable(key_text(key))}" for key in key_shares(sketch, 1)
        ]
        yield "".join((f"hot: {printable(sketch.shard_id)}", peak, *keys))
    if hot:
        yield f"`sublet hot --application {application}` says what helps, and at what price"


def hot_json(hot: Sequence[ShardSketch]) -> dict[str, object]:
    return {
        sketch.shard_id: {
            "heat": round(sketch.heat, 3),
            "peak": None if sketch.worst is None else peak_json(sketch.worst),
            "keys": [key_json(key) for key in key_shares(sketch)],
        }
        for sketch in hot
    }


def text_of(
    found: FleetStatus,
    options: Namespace,
    application: str,
    aside: SetAsideWaiting | None = None,
    hot: Sequence[ShardSketch] = (),
) -> str:
    shards = [shard for shard in worst_first(found.shards) if _is_wanted(shard, options)]
    open_ones = [shard for shard in shards if shard.status is not Status.ENDED]
    if options.json:
        waiting = {} if aside is None else {"set_aside": set_aside_json(aside)}
        warm = {"hot": hot_json(hot)} if hot else {}
        return json.dumps({**fleet_json(found, shards), **waiting, **warm}, indent=None if options.watch else 2)
    head, *lines = lines_of(found, shards, application)
    waits = [] if aside is None else [f"set aside: {set_aside_text(aside, found.at)}"]
    nothing = [] if open_ones else _nothing_matches(found, options)
    return "\n".join((head, *waits, *hot_lines(hot, application), *nothing, *lines))


def _is_wanted(shard: ShardStatus, options: Namespace) -> bool:
    return (
        (not options.unhealthy or shard.is_bad)
        and (options.behind is None or (shard.lag or NOTHING) >= options.behind)
        and (options.owner is None or options.owner in (shard.owner or ""))
    )


def _nothing_matches(found: FleetStatus, options: Namespace) -> list[str]:
    """Returns a line that says so if the filters hide all shards that have not ended."""
    hidden = len(found.shards) - found.statuses.get(Status.ENDED, 0)
    filters = [
        *(["--unhealthy"] if options.unhealthy else []),
        *([] if options.behind is None else [f"--behind {age_text(options.behind)}"]),
        *([] if options.owner is None else [f"--owner {printable(options.owner)}"]),
    ]
    said = f"no shard matches {' '.join(filters)}; {counted(hidden, 'is', 'are')} hidden"
    return [said] if hidden and filters else []


def lines_of(found: FleetStatus, shards: Sequence[ShardStatus], application: str) -> Iterable[str]:
    """Yields a summary line, then a line for each shard that has not ended."""
    left = found.retention_left
    until = "" if left is None else f"; the oldest record that waits is trimmed in {age_text(left)}"
    yield f"{application} at {time_text(found.at)}: {standing_text(found)}{until}"
    open_ones = [shard for shard in shards if shard.status is not Status.ENDED]
    width = max((len(shard.shard_id) for shard in open_ones), default=0)
    width = max(width, SHARD_WIDTH)
    owners = owner_width(open_ones, width + BESIDE_OWNERS)
    if open_ones:
        yield f"{'shard':<{width}} {'status':<8} {'lag':>6} {'trend':>10} {'caught up':>10}  {'owner':<{owners}} why"
    for shard in open_ones:
        yield _line(shard, width, owners)
    if found.multi_stream:
        said = "not shown: those of one stream are in use. With SUBLET_STREAMS=... they are shown"
        yield f"{counted(found.multi_stream, 'lease')} of several streams {said}"
    if found.of_gone:
        yield f"{counted(found.of_gone, 'lease')} of deleted streams not shown; `sublet streams` names these streams"
    for row in found.malformed:
        yield f"{printable(row.lease_key):<21} the row cannot be read: {printable(row.problem)}"


def standing_text(found: FleetStatus) -> str:
    """Returns how many shards have each status, and the worst lag."""
    counts = found.statuses
    by_status = ", ".join(f"{counts[each]} {each}" for each in WORST_FIRST if each in counts)
    lag = lag_text(found.lag, is_at_least=found.lag_is_at_least)
    worst = "" if found.lag is None else f"; worst lag {lag}"
    return f"{by_status or 'no shards'}{worst}"


def _line(shard: ShardStatus, width: int, owners: int) -> str:
    lag = lag_text(shard.lag, is_at_least=shard.lag_is_at_least)
    trend = "-" if shard.trend is None else f"{shard.trend:+.2f} s/s"
    done = "-" if shard.caught_up_in is None else f"in {age_text(shard.caught_up_in)}"
    facts = f"{shard.status:<8} {lag:>6} {trend:>10} {done:>10}"
    return f"{printable(shard.shard_id):<{width}} {facts}  {owner_text(shard, owners):<{owners}} {why_of(shard)}"


def why_of(shard: ShardStatus) -> str:
    """Returns why the shard has its status, and its handler's last error."""
    lost = "" if shard.lost is None else f"records of {age_text(shard.lost)} are past retention, unread; "
    paused = "" if shard.pause is None else _paused_text(shard.pause)
    crashes = f"; owners died there: {shard.crashes}" if shard.crashes else ""
    said = _since_text(shard)
    return f"{lost}{shard.because}{said}{paused}{crashes}{_failing_text(shard)}"


def _since_text(shard: ShardStatus) -> str:
    if shard.since is None:
        return ""
    if shard.because is StatusReason.NOT_ANSWERED:
        return f"; since {time_text(shard.since)}"
    return f", at {time_text(shard.since)}" if shard.because is StatusReason.NOTHING_WAITED else ""


def _failing_text(shard: ShardStatus) -> str:
    if shard.failing is not None:
        return f"; {failure_text(shard.failing)}"
    return f"; failed calls: {shard.attempts}" if shard.attempts else ""


def _paused_text(pause: Pause) -> str:
    what = "" if pause.order is Order.PAUSE else f" to {pause.order}"
    until = "" if pause.until is None else f", until {time_text(pause.until)}"
    return f"{what} ({printable(pause.by)}{until})"


COMMAND = Command("status", "show a status for each shard, its lag and its forecast", add_arguments, show_status)
