"""`sublet cost`: shows what consuming a stream costs a month, in each way to do it."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.decisions.plurals import counted
from sublet.errors import SettingsError
from sublet.operate.cli.options.arguments import duration
from sublet.operate.rules.cost import PricedDesign, StreamLoad, cheapest, offers
from sublet.operate.rules.prices import AS_OF, REGION
from sublet.settings import MetricsByShard, MetricsLevel

if TYPE_CHECKING:
    from sublet.operate.rules.examination import Volume

DESCRIPTION = f"""\
Show what consuming a stream costs a month: with each mode, schedule and packing of sublet, with Lambda's event source
mapping, and with Java's KCL on Fargate; and which is cheapest for a latency. Prices are the list prices of {REGION} in
{AS_OF}, without free tiers. Kinesis itself is left out, since its price is the same for all.

With --stream it asks Kinesis for the open shards, and CloudWatch for what producers wrote during --over. With --shards
and --records-per-second it makes no calls. sublet's metrics, alarms and logs are included; those of the other two are
not."""

EXAMPLES = """\
examples:
  sublet cost --stream orders
  sublet cost --stream orders --stream audit-eu
  sublet cost --stream orders --latency 10s --handler-time 20ms
  sublet cost --shards 100 --records-per-second 50 --latency 5m
  sublet cost --shards 4 --records-per-second 2000 --bytes-per-second 1000000 --json"""

BYTES_PER_RECORD = 1_000
"""The size of a record if only the number of records is given."""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--stream",
        dest="streams",
        metavar="TEXT",
        action="append",
        default=[],
        help="a stream's name, or its ARN; repeat it to get the costs of an application of several streams",
    )
    parser.add_argument(
        "--over",
        metavar="DURATION",
        type=duration,
        default=timedelta(days=1),
        help="average what producers wrote over this time (default: 1d)",
    )
    parser.add_argument("--shards", metavar="NUMBER", type=_at_least(1), help="instead of the stream's own number")
    parser.add_argument("--records-per-second", metavar="NUMBER", type=_at_least(0), help="of the whole stream")
    parser.add_argument(
        "--bytes-per-second",
        metavar="NUMBER",
        type=_at_least(0),
        help=f"of the whole stream (default: {BYTES_PER_RECORD:,} a record)",
    )
    parser.add_argument(
        "--latency",
        metavar="DURATION",
        type=duration,
        default=timedelta(minutes=1, seconds=30),
        help="how long a record may wait (default: 90s)",
    )
    parser.add_argument(
        "--handler-time",
        metavar="DURATION",
        type=duration,
        default=timedelta(milliseconds=1),
        help="how long your handler takes for one record (default: 1ms)",
    )
    parser.add_argument(
        "--metrics-by-shard",
        dest="by_shard",
        type=MetricsByShard,
        choices=tuple(MetricsByShard),
        help="the setting metrics_by_shard (default: none with --monitoring lean, otherwise worst)",
    )
    parser.add_argument(
        "--monitoring",
        type=MetricsLevel,
        choices=tuple(MetricsLevel),
        default=MetricsLevel.LEAN,
        help="how much watches it (default: lean, as `sublet deploy` has it for a new stack)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


MOST = 10**12
"""More than any account has, and few enough digits to print."""


class _at_least:  # noqa: N801 - argparse shows a type's name
    """Parses numbers from `least` to MOST, without `nan`; whole ones if `least` is 1."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, text: str) -> float:
        try:
            number = int(text) if self.least else float(text)
        except ValueError:
            number = -1
        if not (text.isascii() and self.least <= number <= MOST):
            raise ArgumentTypeError(f"{text!r} is not a number, {self.least} to {MOST:,}")
        return number


def cost(options: Namespace) -> int:
    load = load_of(options)
    found = offers(
        load,
        monitoring=options.monitoring,
        metrics_by_shard=options.by_shard,
        streams=len({*options.streams}) or 1,
    )
    if options.json:
        print(json.dumps(as_json(load, found, options.latency), indent=2))
    else:
        print("\n".join(lines_of(load, found, options.latency)))
    return 0


def load_of(options: Namespace) -> StreamLoad:
    """Takes the load from the options, and what they leave out from the stream."""
    shards, records, size = options.shards, options.records_per_second, options.bytes_per_second
    if shards is None or records is None:
        if not options.streams:
            raise SettingsError("stream", None, "required; give --stream, or --shards and --records-per-second")
        open_shards, volume = measured(options.streams, options.over, volume_too=records is None)
        shards = open_shards if shards is None else shards
        if records is None:
            records = volume.records_per_second
            size = volume.bytes_per_second if size is None else size
    size = BYTES_PER_RECORD * records if size is None else size
    return StreamLoad(int(shards), records, size, options.handler_time)


def measured(streams: Sequence[str], over: timedelta, *, volume_too: bool) -> tuple[int, Volume]:
    """Adds up the open shards of the streams, and what producers wrote to them. Raises what Account and Inspection
    raise.
    """
    from sublet.aws.account import AwsAccount
    from sublet.operate.aws.inspection import AwsInspection
    from sublet.operate.rules.examination import Volume
    from sublet.protocol.stream_identity import stream_settings
    from sublet.settings import Settings

    account, open_shards, bytes_in, records_in = AwsAccount(), 0, 0.0, 0.0
    for stream in dict.fromkeys(streams):
        open_shards += account.info(stream).open_shards
        if volume_too:
            settings = Settings(application="sublet", **stream_settings(stream))  # type: ignore[arg-type]
            volume = AwsInspection(settings, settings.stream_arn).incoming(over)
            bytes_in, records_in = bytes_in + volume.bytes_per_second, records_in + volume.records_per_second
    return open_shards, Volume(bytes_in, records_in)


def lines_of(load: StreamLoad, found: Sequence[PricedDesign], latency: timedelta) -> Iterable[str]:
    yield (
        f"{counted(load.shards, 'shard')}, {load.records_per_second:,.1f} records and "
        f"{load.bytes_per_second / 1000:,.1f} kB a second; US$ a month, {REGION}, {AS_OF}"
    )
    width = max((len(offer.name) for offer in found), default=0)
    yield f"{'':<{width}} {'late by':>8} {'runs':>9} {'beside':>9} {'in all':>9}"
    for offer in found:
        late = f"{offer.latency.total_seconds():,.0f} s"
        yield (
            f"{offer.name:<{width}} {late:>8} {_dollars(offer.runs):>9} {_dollars(offer.beside):>9} "
            f"{_dollars(offer.total):>9}"
        )
    yield ""
    yield from _advice(found, latency)


def _advice(found: Sequence[PricedDesign], latency: timedelta) -> Iterable[str]:
    seconds = f"{latency.total_seconds():,g} s"
    ours, any_ = cheapest(found, latency, ours=True), cheapest(found, latency, ours=False)
    if any_ is None:
        yield f"there is no way to handle every record within {seconds}"
        return
    if ours is None or not any_.is_ours:
        yield f"cheapest within {seconds}: {any_.name} ({any_.needs})"
    if ours is not None:
        yield f"cheapest of sublet within {seconds}: {ours.name}; {ours.needs}"
    if ours is not None and ours.beside > ours.runs:
        yield "most of it is metrics and alarms: --metrics-by-shard none shows it without those of single shards"


def as_json(load: StreamLoad, found: Sequence[PricedDesign], latency: timedelta) -> dict[str, object]:
    """Shows durations in seconds, and prices in dollars a month."""
    chosen = {"any": cheapest(found, latency, ours=False), "sublet": cheapest(found, latency, ours=True)}
    return {
        "prices": {"region": REGION, "as_of": AS_OF},
        "shards": load.shards,
        "records_per_second": load.records_per_second,
        "bytes_per_second": load.bytes_per_second,
        "offers": [
            {
                "name": offer.name,
                "latency": offer.latency.total_seconds(),
                "runs": round(offer.runs, 2),
                "beside": round(offer.beside, 2),
                "total": round(offer.total, 2),
                "needs": offer.needs,
                "is_sublet": offer.is_ours,
            }
            for offer in found
        ],
        "latency": latency.total_seconds(),
        "cheapest": {who: None if offer is None else offer.name for who, offer in chosen.items()},
    }


def _dollars(amount: float) -> str:
    return f"{amount:,.2f}" if amount < 10 else f"{amount:,.0f}"


COMMAND = Command("cost", "show what consuming a stream costs a month, in each way to do it", add_arguments, cost)
