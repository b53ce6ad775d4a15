"""The option --shard, for commands that act on some shards or on all of them."""

from __future__ import annotations

from argparse import ArgumentParser


def add_shards(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--shard",
        dest="shards",
        metavar="SHARD",
        action="append",
        default=[],
        help="only this shard; may be repeated",
    )
