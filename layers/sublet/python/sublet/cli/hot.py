"""`sublet hot`: which shards are hot, why, and what helps."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.settings_options import add_setting, settings_of
from sublet.cli.shards_option import add_shards
from sublet.cli.shown import printable
from sublet.cli.status import duration
from sublet.decisions.hot_shards import HeatVerdict, HotShard
from sublet.decisions.resharding import aws_command
from sublet.errors import CheckRefused, LeaseTableError
from sublet.operate.hot_text import key_text, peak_text, price_text
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.decisions.sketch import ShardSketch
    from sublet.ports import Ports

DESCRIPTION = """\
Show which shards of a stream are hot, why, what helps, and what that costs: the worst second against the 1 MiB and 1,000 records
that a shard takes, the partition keys with their share of the load, and a verdict.

  one key              a partition key dominates, and no split divides a key: salt it
  few keys             no split divides the load: salt the heaviest keys
  split                many keys: split at the weighted median of the load, with the command
  explicit hash keys   producers place the records here by explicit hash keys
  aggregates           producers aggregate without regard to their records' own shards
  merge                with its neighbour it needs a quarter of one shard
  on demand, auto      Kinesis splits, or places the records, by itself
  unknown              its row says that it is hot, and no worker has made a sketch yet
  fine                 nothing to do

Workers of sublet make sketches while they read; those of the ten hottest shards are kept for an hour. A share is a lower bound:
certain if every record was counted, otherwise true in 999 cases of 1,000. Partition keys are shown by their MD5 unless the
workers' setting hot_shard_keys is `names`. With --exact, Spark reads the last minutes of the stream and counts every record, with
the keys' names; that needs Spark and shares the shards' polls with the consumers.
Of a KCL 3 fleet only the bytes a second in its rows are known.

Without --execute nothing is changed. With it, the splits and merges that are shown are made, one after the other; give --shard to
choose. The exit code is 0 if no shard is hot, 1 if one is, and 2 for an error."""

EXAMPLES = """\
examples:
  sublet hot --application orders-audit --stream orders
  sublet hot --application orders-audit --stream orders --json
  sublet hot --application orders-audit --stream orders --shard shardId-000000000003 --execute"""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    add_shards(parser)
    parser.add_argument("--execute", action="store_true", help="make the splits and merges that are shown")
    parser.add_argument(
        "--exact", action="store_true", help="read the stream once more, with Spark, and count every record"
    )
    parser.add_argument(
        "--last", metavar="DURATION", type=duration, default=timedelta(minutes=10),
        help="with --exact: how far back (default: 10m)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")
    for name in ("application", "stream"):
        add_setting(parser, DEFINITIONS[name])


def run(options: Namespace) -> int:
    from sublet.aws.account import AwsAccount
    from sublet.aws.ports import aws_ports
    from sublet.operate.hot_shards import look, reshard

    settings = settings_of(options, os.environ, required=("application", "stream"))
    ports, account = aws_ports(settings, "sublet", output=None), AwsAccount()
    sketches = exact(settings.stream, ports, options.last) if options.exact else _sketches(ports)
    found = look(settings, ports, account, sketches)
    shown = chosen(found, options.shards, settings.stream)
    if options.json:
        print(json.dumps([as_json(shard, settings.stream) for shard in shown], indent=2))
    else:
        print("\n".join(lines_of(shown, settings.stream)))
    changes = [shard.change for shard in shown if shard.change is not None]
    if changes and not options.execute:
        print("\nNothing has been changed: add --execute.", file=sys.stderr)
    if changes and options.execute:
        for done in reshard(settings.stream, changes, account):
            print(f"done: {aws_command(settings.stream, done)}", file=sys.stderr, flush=True)
    return 1 if any(shard.is_hot for shard in shown) else 0


def chosen(shards: Sequence[HotShard], names: Sequence[str], stream: str) -> Sequence[HotShard]:
    """All, or those named. Raises CheckRefused for a name that no open shard has."""
    unknown = set(names) - {shard.shard_id for shard in shards}
    if unknown:
        raise CheckRefused(
            f"stream {stream} has no open shard {', '.join(sorted(unknown))}; `sublet shards` lists its shards"
        )
    return [shard for shard in shards if not names or shard.shard_id in names]


def exact(stream: str, ports: Ports, last: timedelta) -> Mapping[str, ShardSketch]:
    """In a session of Spark of this process, whose settings are Spark's own."""
    try:
        from sublet.spark.exact_sketches import exact_sketches, local_spark
    except ImportError as missing:
        raise CheckRefused(
            f"--exact needs Spark, which is not installed ({missing.name}): sublet[spark]"
        ) from None
    now = ports.clock.now()
    return exact_sketches(local_spark(), stream, ports.stream.list_shards(), now - last, now)


def _sketches(ports: Ports) -> Mapping[str, ShardSketch]:
    """Empty for an application whose sightings table does not exist, or may not be read."""
    from sublet.operate.hot_shards import stored_sketches

    try:
        return stored_sketches(ports)
    except LeaseTableError as unknown:
        print(f"sublet: no sketches: {unknown}", file=sys.stderr)
        return {}


def lines_of(shards: Sequence[HotShard], stream: str) -> Iterable[str]:
    """One shard after the other; those that are fine in a line."""
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
        "shard_id": shard.shard_id,
        "verdict": shard.verdict.value,
        "because": shard.because,
        "then": shard.then,
        "share": shard.share,
        "peak": None
        if shard.peak is None
        else {
            "at": shard.peak.at.isoformat(),
            "bytes": shard.peak.bytes,
            "records": shard.peak.records,
        },
        "keys": [
            {
                "md5": f"{key.key_hash:032x}",
                "name": key.name,
                "at_least": key.at_least,
                "at_most": key.at_most,
            }
            for key in shard.keys
        ],
        "is_sampled": shard.is_sampled,
        "split": None
        if shard.split is None
        else {"at": str(shard.split.at), "below": shard.split.below, "above": shard.split.above},
        "command": None if shard.change is None else aws_command(stream, shard.change),
        "usd_per_month": shard.per_month,
    }


COMMAND = Command("hot", "which shards are hot, why, and what helps", add_arguments, run)
