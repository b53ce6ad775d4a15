"""`make mixed-fleet`: kcl-rs (KCL 3, written by others) and sublet on one stream and one lease table. About four minutes.

Everything is real but AWS: kinesis-local reshards as Kinesis does, ministack's DynamoDB serves both sides' conditional
writes. Ends with 1 if a record was missing or out of order, a child came before its parents, a lease was stuck, or either side
did to a row what the protocol does not allow. Everything recorded stays in the folder that is named at the end.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from infra.local.embedded import EmbeddedAws, embedded_aws
from tests.e2e.deliveries import Recorder
from tests.e2e.fleet import Fleet
from tests.mixed_fleet.story import Story
from tests.mixed_fleet.table_watch import TableWatch
from tests.mixed_fleet.verdict import Verdict, judge, read_handled
from tests.mixed_fleet.workers import KCL_RS_PYTHON, Employer, Side

APPLICATION = "mixed-fleet"
SHARDS = 4


def main() -> int:
    if not KCL_RS_PYTHON.exists():
        print("kcl-rs is not installed: run `make mixed-fleet`", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="sublet-mixed-fleet-"))
    with embedded_aws() as aws:
        story = _story(aws, folder)
        story.watch.start()
        stuck = ""
        try:
            story.run()
        except AssertionError as problem:
            stuck = str(problem)
        finally:
            story.end()
            story.watch.stop()
        verdict = _verdict(story, folder)
    _show(story, verdict, stuck)
    print(f"logs and records: {folder}")
    return int(bool(stuck or story.watch.wrong) or not verdict.is_clean)


def _story(aws: EmbeddedAws, folder: Path) -> Story:
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=APPLICATION, ShardCount=SHARDS)
    kinesis.get_waiter("stream_exists").wait(StreamName=APPLICATION, WaiterConfig={"Delay": 1})
    fleet = Fleet(aws, APPLICATION, {"LeaseTable": APPLICATION}, Recorder(folder))
    watch = TableWatch(aws.client("dynamodb"), APPLICATION)
    return Story(
        fleet, Employer(aws, APPLICATION, APPLICATION, folder), watch, lambda line: print(line, flush=True)
    )


def _verdict(story: Story, folder: Path) -> Verdict:
    shards = story.fleet.kinesis.list_shards(StreamName=APPLICATION)["Shards"]
    parents = {
        shard["ShardId"]: [
            shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if name in shard
        ]
        for shard in shards
    }
    ends = {worker.worker_id: worker.end for worker in story.workers}
    return judge(read_handled(folder, story.workers), story.fleet.put, parents, ends)


def _show(story: Story, verdict: Verdict, stuck: str) -> None:
    print(
        f"\n{len(story.fleet.put):,} records put, {verdict.handled:,} handled; {story.watch.looks:,} looks at the table, "
        f"leases moved {len(story.watch.moves)} times: "
        f"{story.watch.moves_between(Side.KCL_RS, Side.SUBLET)} from kcl-rs to sublet, "
        f"{story.watch.moves_between(Side.SUBLET, Side.KCL_RS)} back"
    )
    for what, found in (
        ("missing", verdict.missing),
        ("out of order", verdict.out_of_order),
        ("children before their parents", verdict.children_too_early),
        ("unexplained duplicates", verdict.unexplained),
        ("broken rules of the lease table", story.watch.wrong),
        ("stuck", [stuck] if stuck else []),
    ):
        print(f"{len(found):>6}  {what}" + "".join(f"\n        {one}" for one in found[:10]))
    print(
        f"{story.watch.set_back:>6}  late checkpoints that kcl-rs wrote its own, older position over (see table_watch.py)"
    )
    print(f"{sum(verdict.duplicates.values()):>6}  duplicates")
    for explanation, count in sorted(verdict.duplicates.items()):
        print(f"{count:>14}  {explanation}")


if __name__ == "__main__":
    sys.exit(main())
