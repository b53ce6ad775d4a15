"""`sublet diff`: shows where the positions of two applications differ."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.command_line.terminal_text import printable
from sublet.errors import SettingsError, StreamNotAdopted, SubletError
from sublet.operate.cli.options.arguments import duration
from sublet.operate.cli.options.one_stream import of_one_stream
from sublet.operate.cli.options.operated import operated
from sublet.operate.cli.positions.snapshots import lease_table, stream_of
from sublet.operate.formatting import age_text, time_text
from sublet.settings import DEFINITIONS
from sublet.settings.value import NO_STREAM, variable_of

if TYPE_CHECKING:
    from sublet.operate.rules.position_differences import PositionDifference
    from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
    from sublet.protocol.stream_identity import StreamIdentity

DESCRIPTION = """\
Show where the positions of two applications that read the same stream differ, shard by shard: which is behind, by how
much time and about how many records, and shards of which only one has a lease. It moves nothing.

Time and records are asked of the stream, by eight calls at most for each shard that differs: the one of --stream, or
the one that is stored beside either application's leases. Without it, only the positions are compared. With --within, a
shard at which both are this close counts as equal, as those of two applications at work do.

The exit code is 0 if the positions are equal, 1 if they differ or a row cannot be read, and 2 for an error."""

EXAMPLES = """\
examples:
  sublet diff orders-audit orders-billing
  sublet diff orders-audit orders-billing --stream orders --within 1m
  sublet diff orders-audit orders-billing --json"""

WORDS = {
    "equal": "equal",
    "behind": "behind",
    "ahead": "ahead",
    "only first": "no lease in {second}",
    "only second": "no lease in {first}",
    "unknown": "elsewhere",
}


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("first", metavar="APPLICATION")
    parser.add_argument("second", metavar="OTHER")
    parser.add_argument(
        "--within", type=duration, default=timedelta(0), metavar="DURATION", help="count shards this close as equal"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_setting(parser, DEFINITIONS["stream"])


def diff(options: Namespace) -> int:
    from sublet.operate.positions.position_differences import with_times
    from sublet.operate.rules.position_differences import differences

    named = options.stream or os.environ.get(variable_of("stream"))
    known = {name: stream_of(name) for name in (options.first, options.second)}
    check_same_stream(known)
    stored = next((each.arn for each in known.values() if each is not None), None)
    wish = Namespace(application=options.first, stream=named or stored)
    settings, ports = operated(wish, required=("application",), finds_streams=True)
    ours = ports.table.scan()
    theirs = lease_table(options.second).scan()
    if named is not None:
        theirs = of_one_stream(named, theirs, options.second, known[options.second])
    check_same_kind(options, ours, theirs)
    found = differences(ours.leases, theirs.leases)
    if settings.stream != NO_STREAM or ports.streams is not None:
        found = with_times(found, ports)
    malformed = (*ours.malformed, *theirs.malformed)
    show(options, found, malformed, ports.clock.now())
    return 1 if malformed or any(each.differs(options.within) for each in found) else 0


def check_same_stream(known: dict[str, StreamIdentity | None]) -> None:
    """Raises StreamNotAdopted if the two are known to read different streams."""
    if len(known) == 1:
        raise SettingsError("other", next(iter(known)), "another application than the first")
    (first, one), (second, other) = known.items()
    if one is not None and other is not None and not one.is_same_as(other):
        raise StreamNotAdopted(f"{first} reads {one.arn} and {second} reads {other.arn}: they have no shard in common")


def check_same_kind(options: Namespace, ours: LeaseScan, theirs: LeaseScan) -> None:
    """Raises SubletError if one names its shards in full and the other does not."""
    from sublet.decisions.streams.operated_streams import streams_of

    kinds = [bool(streams_of(scan)) for scan in (ours, theirs)]
    if ours.leases and theirs.leases and kinds[0] != kinds[1]:
        several, one = (options.first, options.second) if kinds[0] else (options.second, options.first)
        raise SubletError(
            f"{several} reads several streams and {one} reads one: their leases have different names, and cannot be "
            "compared"
        )


def show(
    options: Namespace, found: Sequence[PositionDifference], malformed: Sequence[MalformedRow], at: datetime
) -> None:
    if options.json:
        print(json.dumps(as_json(options, found, malformed, at), indent=2))
        return
    print("\n".join(lines_of(options, found, at)))
    for row in malformed:
        print(f"{printable(row.lease_key)}  the row cannot be read: {printable(row.problem)}")


def lines_of(options: Namespace, found: Sequence[PositionDifference], at: datetime) -> Iterable[str]:
    names = {"first": options.first, "second": options.second}
    counts = Counter(_word(each, options.within, names) for each in found)
    summary = ", ".join(f"{count} {word}" for word, count in counts.items()) or "no leases"
    yield f"{options.first} beside {options.second} at {time_text(at)}: {summary}"
    differing = [each for each in found if each.differs(options.within)]
    if not differing:
        return
    width = max(len(each.shard_id) for each in differing)
    words = max(len(_word(each, options.within, names)) for each in differing)
    yield f"{'shard':<{width}}  {'is':<{words}}  {'by':>6}  {'records':>9}  {options.first} | {options.second}"
    for each in differing:
        time = "-" if each.time is None else age_text(each.time)
        records = "-" if each.records is None else f"~{each.records:,}"
        places = f"{_place(each.first)} | {_place(each.second)}"
        word = _word(each, options.within, names)
        yield f"{printable(each.shard_id):<{width}}  {word:<{words}}  {time:>6}  {records:>9}  {places}"


def _word(each: PositionDifference, within: timedelta, names: dict[str, str]) -> str:
    return WORDS[each.standing].format(**names) if each.differs(within) else "equal"


def _place(lease: Lease | None) -> str:
    if lease is None:
        return "-"
    moment = f" {time_text(lease.position.start_at)}" if lease.position.start_at is not None else ""
    return f"{lease.checkpoint}{moment}"


def as_json(
    options: Namespace, found: Sequence[PositionDifference], malformed: Sequence[MalformedRow], at: datetime
) -> dict[str, object]:
    """`standing`: how the first stands beside the second. `seconds` and `records` are not signed."""
    return {
        "first": options.first,
        "second": options.second,
        "at": at.isoformat(),
        "differs": bool(malformed) or any(each.differs(options.within) for each in found),
        "shards": [
            {
                "shard": each.shard_id,
                "standing": each.standing.value,
                "differs": each.differs(options.within),
                "seconds": None if each.time is None else each.time.total_seconds(),
                "records": each.records,
                "first": _position_json(each.first),
                "second": _position_json(each.second),
            }
            for each in found
        ],
        "malformed": [{"lease": row.lease_key, "problem": row.problem} for row in malformed],
    }


def _position_json(lease: Lease | None) -> dict[str, object] | None:
    if lease is None:
        return None
    at = lease.position.start_at
    return {"checkpoint": str(lease.checkpoint), "start_at": None if at is None else at.isoformat()}


COMMAND = Command("diff", "show where two applications' positions differ", add_arguments, diff)
