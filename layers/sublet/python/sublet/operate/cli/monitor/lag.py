"""`sublet lag`: shows how far behind an application, or one shard, has been."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from datetime import timedelta

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import printable
from sublet.operate.cli.options.arguments import duration
from sublet.operate.cli.options.one_stream import add_one_stream, one_stream
from sublet.operate.cli.positions.snapshots import lease_table, stream_of
from sublet.operate.formatting import age_text, time_text
from sublet.operate.rules.lag_over_time import LONGEST, LagOverTime, lag_over_time, step_for
from sublet.protocol.stream_key import own_id
from sublet.settings import DEFINITIONS
from sublet.settings.text import duration_text

DESCRIPTION = """\
Show how far behind an application has been: the worst lag of its shards in each step of --over, from its own metrics in
CloudWatch; with SHARD, that shard's lag; with --stream, the lag of one of several streams. A row keeps the last ten
minutes alone, which `sublet history` shows.

It makes one request for one metric (cloudwatch:GetMetricData). The figures are complete after three minutes. Which
shards have metrics of their own is the setting metrics_by_shard."""

EXAMPLES = """\
examples:
  sublet lag --application orders-audit
  sublet lag --application orders-audit --over 14d --json
  sublet lag shardId-000000000003 --application orders-audit --over 6h"""

FULL = 40
"""The longest bar."""
NOT_PUT = "    -  no metric: nothing ran, or it could not put one"
NO_METRICS = "an application puts it unless monitoring=none (in a process: unless metrics are off)"
NO_METRICS_OF_PART = (
    "with monitoring=full, one of several streams has metrics of its own, and a shard by the setting metrics_by_shard"
)


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("shard", metavar="SHARD", nargs="?", help="one shard's (default: the worst of all)")
    parser.add_argument(
        "--over", metavar="DURATION", type=_over, default=timedelta(days=1), help="how far to look back (default: 1d)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_one_stream(parser)
    add_setting(parser, DEFINITIONS["application"])


def _over(text: str) -> timedelta:
    found = duration(text)
    if not timedelta(minutes=1) <= found <= LONGEST:
        raise ArgumentTypeError(f"{text!r} is not 1m to {LONGEST.days}d, for which CloudWatch keeps figures")
    return found


def show(options: Namespace) -> int:
    from sublet.operate.aws.inspection import AwsInspection

    settings = settings_of(options, os.environ, required=("application",))
    shard, stream = meant(options.shard, options.one_stream, settings.application)
    step = step_for(options.over)
    found = lag_over_time(AwsInspection(settings, None).lags(options.over, step, shard, stream), step)
    of = " of ".join(part for part in (shard and own_id(shard), stream, settings.application) if part)
    lines = lines_of(found, of, options.over, is_of_part=bool(shard or stream))
    print(json.dumps(as_json(found), indent=2) if options.json else "\n".join(lines))
    return 0


def meant(shard: str | None, stream: str | None, application: str) -> tuple[str | None, str | None]:
    """Returns the lease key of the shard that is named, and the stream's name if the application reads several and none
    of its shards is named. The shard needs no lease: it may have ended long ago. Raises ShardNotFound, also if several
    streams have a shard of this id, and StreamNotFound.
    """
    from sublet.decisions.streams.operated_streams import shard_named, streams_of

    if shard is None and stream is None:
        return None, None
    scan = lease_table(application).scan()
    streams = one_stream(stream, scan, application, stream_of(application))
    if shard is None:
        return None, None if streams is None else next(iter(streams)).stream
    return shard_named(shard, streams_of(scan) if streams is None else tuple(streams)), None


def lines_of(found: LagOverTime, of: str, over: timedelta, *, is_of_part: bool = False) -> Iterator[str]:
    """`is_of_part`: of a shard, or of one of several streams."""
    of = printable(of)
    if found.worst is None:
        yield f"CloudWatch has no lag of {of} in the last {duration_text(over)}"
        yield NO_METRICS_OF_PART if is_of_part else NO_METRICS
        return
    worst, when = found.worst
    yield f"lag of {of}, the worst in each {duration_text(found.step)}; at most {age_text(worst)}, at {time_text(when)}"
    most = worst.total_seconds()
    for at, lag in found.lags:
        shown = NOT_PUT if lag is None else f"{age_text(lag):>5}  {_bar(lag.total_seconds(), most)}"
        yield f"{time_text(at)}  {shown}".rstrip()


def _bar(value: float, most: float) -> str:
    return "#" * round(value / most * FULL) if most else ""


def as_json(found: LagOverTime) -> dict[str, object]:
    return {
        "step_seconds": found.step.total_seconds(),
        "lags": [
            {"at": at.isoformat(), "seconds": None if lag is None else lag.total_seconds()} for at, lag in found.lags
        ],
    }


COMMAND = Command("lag", "show how far behind an application has been", add_arguments, show)
