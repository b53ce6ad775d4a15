"""`sublet hot`: shows which shards are hot, why, and what helps."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.command_line.terminal_text import harmless, printable
from sublet.decisions.load.resharding import Reshard, Split, aws_command
from sublet.errors import CheckRefused, LeaseTableError
from sublet.operate.cli.options.arguments import add_shards, duration
from sublet.operate.cli.options.operated import operated
from sublet.operate.hot_shards import key_json, key_text, peak_json, peak_text, price_text
from sublet.operate.rules.hot_shards import HeatVerdict, HotShard
from sublet.protocol.stream_key import own_id, shard_alone
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.decisions.load.sketch import ShardSketch
    from sublet.ports import Ports
    from sublet.ports.account import Account
    from sublet.reading.several_streams import OneStream

DESCRIPTION = """\
Show which shards of a stream are hot, why, what helps, and what that costs: each shard's worst second beside the 1 MiB
and 1,000 records that a shard takes, the partition keys with their share of the load, and a verdict.

  one key              one partition key dominates, and a split cannot divide a key: salt it
  few keys             a split would not divide the load: salt the heaviest keys
  split                many keys share the load: split the shard where the load halves, with the command shown
  explicit hash keys   producers place the records here by explicit hash keys
  aggregates           producers aggregate records without regard to the records' own shards
  merge                the shard and its neighbour together need at most a quarter of one shard
  on demand, auto      Kinesis itself splits shards (on demand) or places records (auto)
  unknown              its row says that it is hot, but no worker has made a sketch yet
  not measured         no worker reports how fast it reads the shard; it may be hot
  fine                 nothing to do

sublet's workers make sketches while they read; those of the ten hottest shards are kept for an hour. A share is a lower
bound: certain if every record was counted, otherwise true in 999 cases of 1,000. Partition keys are shown by their MD5
unless the workers' setting hot_shard_keys is `names`. With --exact, Spark reads the last minutes of the stream and
counts every record, with the keys' names; this needs Spark, and shares the shards' polls with the consumers. For a KCL
3 fleet, only the bytes a second in its rows are known.

Without --execute nothing is changed. With it, the splits that are shown are made, one after the other; --shard selects
some. A merge is made only of a shard that --shard names, because its load may be about to grow.

If the application reads several streams, all are shown, or only that of --stream. --shard then takes a shard's full
name, as `sublet status` shows it, or its own id with --stream. The exit code is 0 if no shard is hot, 1 if one is, and
2 for an error."""

EXAMPLES = """\
examples:
  sublet hot --application orders-audit --stream orders
  sublet hot --application orders-audit --stream orders --json
  sublet hot --application orders-audit --stream orders --shard shardId-000000000003 --execute"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    add_shards(parser)
    parser.add_argument(
        "--execute",
        action="store_true",
        help="make the splits that are shown, and the merges of shards that --shard names",
    )
    parser.add_argument(
        "--exact", action="store_true", help="read the stream once more, with Spark, and count every record"
    )
    parser.add_argument(
        "--last",
        metavar="DURATION",
        type=duration,
        default=timedelta(minutes=10),
        help="with --exact: how far back (default: 10m)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    for name in ("application", "stream"):
        add_setting(parser, DEFINITIONS[name])


def run(options: Namespace) -> int:
    from sublet.aws.account import AwsAccount
    from sublet.operate.hot_shards import reshard
    from sublet.reading.several_streams import each_stream

    (settings, ports), account = operated(options, required=("application", "stream")), AwsAccount()
    streams = each_stream(settings, ports)
    found = looks(streams, ports, account, options)
    if options.json:
        print(
            json.dumps(
                [as_json(shard, stream.settings.stream) for stream, shards in found for shard in shards],
                indent=2,
            )
        )
    else:
        print("\n".join(line for stream, shards in found for line in _lines(stream, shards, len(streams))))
    changes = [(stream, shard.change) for stream, shards in found for shard in shards if shard.change is not None]
    made = [each for each in changes if options.execute and is_executed(each[1], is_named=bool(options.shards))]
    if changes and not options.execute:
        print("\nNothing has been changed. To carry this out, add --execute.", file=sys.stderr)
    elif len(made) < len(changes):
        print("\nMerges are made only of shards that --shard names.", file=sys.stderr)
    for stream, change in made:
        for done in reshard(stream.named, [change], account):
            print(f"done: {aws_command(stream.settings.stream, done)}", file=sys.stderr, flush=True)
    return 1 if any(shard.is_hot for _, shards in found for shard in shards) else 0


def looks(
    streams: Sequence[OneStream], ports: Ports, account: Account, options: Namespace
) -> Sequence[tuple[OneStream, Sequence[HotShard]]]:
    """Returns each stream with the shards that the operator asked for. Leaves out a stream without such a shard."""
    from sublet.operate.hot_shards import look
    from sublet.reading.several_streams import named_shards

    asked = named_shards(options.shards, ports)
    stored = {} if options.exact else _sketches(ports)
    found = []
    for stream in streams:
        sketches = exact(stream.settings.stream, stream.ports, options.last) if options.exact else stored
        names = [own_id(name) for name in asked if stream.full_name(own_id(name)) == name]
        if names or not asked:
            shards = look(stream.settings, stream.ports, account, sketches)
            found.append((stream, chosen(shards, names, stream.settings.stream)))
    return found


def is_executed(change: Reshard, *, is_named: bool) -> bool:
    """True if --execute carries the change out. A merge must be named, because idle shards may be about to get their
    load.
    """
    return is_named or isinstance(change, Split)


def _lines(stream: OneStream, shards: Sequence[HotShard], streams: int) -> Iterable[str]:
    """Yields a stream's lines, under its name if there are several streams."""
    if streams > 1:
        yield f"stream {printable(stream.settings.stream)}"
    yield from lines_of(shards, stream.settings.stream)


def chosen(shards: Sequence[HotShard], names: Sequence[str], stream: str) -> Sequence[HotShard]:
    """Returns the named shards, or all. Raises CheckRefused for a name that no open shard has."""
    unknown = set(names) - {shard.shard_id for shard in shards}
    if unknown:
        raise CheckRefused(
            f"stream {stream} has no open shard {', '.join(sorted(unknown))}; `sublet shards` lists its shards"
        )
    return [shard for shard in shards if not names or shard.shard_id in names]


def exact(stream: str, ports: Ports, last: timedelta) -> Mapping[str, ShardSketch]:
    """Counts with Spark, in a Spark session of this process that has Spark's own settings."""
    try:
        from sublet.spark.exact_sketches import exact_sketches, local_spark
    except ImportError as missing:
        raise CheckRefused(
            f"--exact needs Spark, which is not installed ({missing.name}): install sublet[spark]"
        ) from None
    now = ports.clock.now()
    return exact_sketches(local_spark(), stream, map(shard_alone, ports.stream.list_shards()), now - last, now)


def _sketches(ports: Ports) -> Mapping[str, ShardSketch]:
    """Returns nothing if the sightings table does not exist, or may not be read."""
    from sublet.operate.hot_shards import stored_sketches

    try:
        return stored_sketches(ports)
    except LeaseTableError as unknown:
        print(f"sublet: no sketches: {harmless(str(unknown))}", file=sys.stderr)
        return {}


def lines_of(shards: Sequence[HotShard], stream: str) -> Iterable[str]:
    """Yields the details of each shard in turn, but only one line for a shard that is fine."""
    if not shards:
        yield "the stream has no open shard"
    for shard in shards:
        share = "   -" if shard.share is None else f"{shard.share:>4.0%}"
        yield f"{printable(shard.shard_id):<21} {share}  {shard.verdict}: {printable(shard.because)}"
        if shard.verdict is not HeatVerdict.FINE:
            yield from (f"{'':<21}       {line}" for line in _details(shard, stream))


def _details(shard: HotShard, stream: str) -> Iterable[str]:
    if shard.peak is not None:
        yield f"worst second: {peak_text(shard.peak)}"
    for key in shard.keys:
        yield f"at least {key.at_least:.0%} of the load: {printable(key_text(key))}"
    if shard.then:
        yield printable(shard.then)
    if shard.change is not None:
        yield f"{printable(aws_command(stream, shard.change))}  ({price_text(shard)})"


def as_json(shard: HotShard, stream: str) -> dict[str, object]:
    return {
        "stream": stream,
        "shard_id": shard.shard_id,
        "verdict": shard.verdict.value,
        "because": shard.because,
        "then": shard.then,
        "share": shard.share,
        "peak": None if shard.peak is None else peak_json(shard.peak),
        "keys": [key_json(key) for key in shard.keys],
        "is_sampled": shard.is_sampled,
        "split": None
        if shard.split is None
        else {"at": str(shard.split.at), "below": shard.split.below, "above": shard.split.above},
        "command": None if shard.change is None else aws_command(stream, shard.change),
        "usd_per_month": shard.per_month,
    }


COMMAND = Command("hot", "show which shards are hot, why, and what helps", add_arguments, run)
