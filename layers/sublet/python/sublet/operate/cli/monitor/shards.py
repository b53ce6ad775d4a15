"""`sublet shards`: shows the tree of an application's shards through their reshards, each with its status."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.command_line.terminal_text import printable
from sublet.decisions.status.shard_status import ShardStatus
from sublet.decisions.status.status_rules import Status
from sublet.operate.cli.monitor.status import exit_code, why_of
from sublet.operate.cli.options.looking import look_once
from sublet.operate.cli.text.columns import WHY_BESIDE_OWNERS, owner_text, owner_width
from sublet.operate.formatting import lag_text
from sublet.operate.rules.fleet_json import shard_json
from sublet.operate.rules.shard_tree import ShardBranch, shard_tree
from sublet.protocol.shard import HASH_KEY_MAX
from sublet.settings import DEFINITIONS

DESCRIPTION = """\
Show an application's shards as a tree, through every split and merge that its leases still know: each shard's status,
its lag, its part of the hash key range, its owner, and why it has that status. A merged shard is under the first of
its parents and names the other. Read-only; works with any lease table of KCL 1, 2 or 3. `sublet status --help` says
what the statuses mean.

sublet's own workers write their lag into the lease table. For other rows, such as those of Java's KCL, --probe asks the
stream. If the application reads several streams, --stream shows only one.

The exit code is 0 if all is well, 1 if a shard is bad or a row cannot be read, and 2 for an error."""

EXAMPLES = """\
examples:
  sublet shards --application orders-audit
  sublet shards --application orders-audit --stream orders --probe
  sublet shards --application orders-audit --json"""

BESIDE_OWNERS = 27 + WHY_BESIDE_OWNERS
"""The width of a line's columns other than the shard's id."""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--probe",
        action="store_true",
        help="ask the stream about shards whose rows have no recent lag",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, in the order of the tree")
    for name in ("application", "stream", "failover_time"):
        add_setting(parser, DEFINITIONS[name])


def show_shards(options: Namespace) -> int:
    found = look_once(options)
    tree = shard_tree(found.shards)
    if options.json:
        print(json.dumps([{"depth": len(each.is_last), **shard_json(each.shard)} for each in tree], indent=2))
    else:
        print("\n".join(tree_lines(tree)))
        for row in found.malformed:
            print(f"{printable(row.lease_key)}  the row cannot be read: {printable(row.problem)}")
    return exit_code(found)


def tree_lines(tree: Iterable[ShardBranch]) -> Iterable[str]:
    drawn = [(f"{_stem(each)}{printable(each.shard.shard_id)}", each) for each in tree]
    width = max((len(name) for name, _ in drawn), default=0)
    owners = owner_width((each.shard for _, each in drawn), width + BESIDE_OWNERS)
    return [f"{name:<{width}}  {_facts(each, owners)}" for name, each in drawn]


def _stem(branch: ShardBranch) -> str:
    if not branch.is_last:
        return ""
    *above, is_last = branch.is_last
    return "".join("    " if last else "|   " for last in above) + ("`-- " if is_last else "|-- ")


def _facts(branch: ShardBranch, owners: int) -> str:
    shard = branch.shard
    also = "" if branch.also_of is None else f"also of {printable(branch.also_of)}; "
    if shard.status is Status.ENDED:
        return f"{shard.status:<8} {'':>6} {_part(shard):>6}  {also}".rstrip("; ")
    lag = lag_text(shard.lag, is_at_least=shard.lag_is_at_least)
    facts = f"{shard.status:<8} {lag:>6} {_part(shard):>6}"
    return f"{facts}  {owner_text(shard, owners):<{owners}} {also}{why_of(shard)}"


def _part(shard: ShardStatus) -> str:
    """Returns the shard's part of all hash keys as a percentage."""
    keys = shard.hash_key_range
    return "-" if keys is None else f"{(keys.ending - keys.starting + 1) / (HASH_KEY_MAX + 1):.1%}"


COMMAND = Command("shards", "show the tree of shards, through their reshards", add_arguments, show_shards)
