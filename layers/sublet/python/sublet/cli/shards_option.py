"""The option --shard of commands that act on some shards, or on all."""

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
