"""`sublet skip`: moves a shard past the records that it is stuck on, and sets them aside."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting
from sublet.decisions.plurals import counted
from sublet.operate.cli.options.operated import AS_HANDLED, operated
from sublet.operate.cli.positions.snapshots import snapshot_store, stream_of
from sublet.operate.cli.text.record_text import RecordForm, text_of
from sublet.settings import DEFINITIONS, Settings

if TYPE_CHECKING:
    from sublet.operate.rules.skip import SkipPlan
    from sublet.ports import FailureDestination

DESCRIPTION = """\
Move one shard past its next records, for example past one that the handler can never process. The records are first
given to the failure destination (the application's on_failure), or written to a folder if there is none; `sublet
redrive` passes them to the handler again, from either. The fleet may keep running, Java's KCL too.

Without --execute it only shows the records. It takes a snapshot first, to which `sublet undo` returns. If the owner
moves the position meanwhile, nothing is skipped. Only records that the handler would get are counted: KPL aggregates
outside the shard's hash key range, which consumers drop, are not. If the application has filter_criteria,
deaggregate=false or hash_range_filter=off, give the same here, as options or SUBLET_* variables: the table does not
say."""

EXAMPLES = """\
examples:
  sublet skip shardId-000000000003 --application orders-audit --stream orders
  sublet skip shardId-000000000003 --records 3 --application orders-audit --stream orders --execute
  sublet skip shardId-000000000003 --folder skipped --application orders-audit --stream orders --execute"""

SHOWN_MAX = 20


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("shard", metavar="SHARD")
    parser.add_argument("--records", type=count, default=1, metavar="NUMBER", help="how many, up to 1000 [1]")
    parser.add_argument(
        "--execute",
        action="store_true",
        help="skip the records; without this option only the plan is printed",
    )
    parser.add_argument("--json", action="store_true", help="the plan as JSON")
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="set the records aside in this folder [<application>-skipped, if there is no on_failure]",
    )
    for name in ("application", "stream", "on_failure", *AS_HANDLED):
        add_setting(parser, DEFINITIONS[name])


def count(text: str) -> int:
    from sublet.operate.rules.skip import RECORDS_MAX

    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= RECORDS_MAX:
        raise ArgumentTypeError(f"{text!r} is not a number of records, 1 to {RECORDS_MAX}")
    return int(text)


def skip(options: Namespace) -> int:
    from sublet.operate.cli.options.operated import operator
    from sublet.operate.positions.skip import planned_skip
    from sublet.operate.positions.skip import skip as carry_out

    settings, ports = operated(options, required=("application", "stream"))
    scan, shards = ports.table.scan(), ports.stream.list_shards()
    known = stream_of(settings.application)
    found = planned_skip(options.shard, options.records, known, scan, shards, ports, settings)
    destination, where = destination_of(options.folder, settings, ports.destination)
    if options.json:
        print(json.dumps(skip_json(found.plan, where), indent=2))
    else:
        for line in skip_lines(found.plan, where):
            print(line)
    if not options.execute:
        print("\nNothing has been skipped. To carry out this plan, add --execute.", file=sys.stderr)
        return 0
    carry_out(found, destination, snapshot_store(settings), operator(), ports, settings)
    print(f"\nSkipped, and kept in {where}. `sublet undo` undoes it.", file=sys.stderr)
    return 0


def destination_of(
    folder: Path | None, settings: Settings, of_application: FailureDestination | None
) -> tuple[FailureDestination, str]:
    """Returns the destination, and its name as `redrive --from` takes it."""
    from sublet.operate.set_aside_folder import SetAsideFolder

    if folder is None and of_application is not None and settings.on_failure is not None:
        return of_application, settings.on_failure
    found = folder or Path(f"{settings.application}-skipped")
    return SetAsideFolder(found), str(found)


def skip_lines(plan: SkipPlan, where: str) -> Iterable[str]:
    """Yields the records, and where they go."""
    for record in plan.records[:SHOWN_MAX]:
        yield text_of(record, RecordForm.LINE)
    if len(plan.records) > SHOWN_MAX:
        yield f"and {len(plan.records) - SHOWN_MAX} more"
    tried = f", tried {counted(plan.lease.attempts, 'time')}" if plan.lease.attempts else ""
    yield f"{plan.what}{tried}; they are first kept in {where}"
    if len(plan.records) < plan.wanted:
        yield f"{plan.wanted} were asked for, but the shard has no more"


def skip_json(plan: SkipPlan, where: str) -> dict[str, object]:
    return {
        "shard": plan.shard.shard_id,
        "owner": plan.lease.actual_owner,
        "attempts": plan.lease.attempts,
        "now": str(plan.lease.checkpoint),
        "then": str(plan.records[-1].checkpoint),
        "kept_in": where,
        "records": [
            {
                "position": str(record.checkpoint),
                "partition_key": record.partition_key,
                "bytes": len(record.data),
                "arrived": record.approximate_arrival_timestamp.isoformat(),
            }
            for record in plan.records
        ],
    }


COMMAND = Command("skip", "move a shard past the records that it is stuck on", add_arguments, skip)
