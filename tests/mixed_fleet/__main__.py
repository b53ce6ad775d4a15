"""`make mixed-fleet`: kcl-rs (KCL 3, by other authors) and sublet on one stream and one lease table. About four
minutes.

Everything is real except AWS: kinesis-local reshards as Kinesis does, ministack's DynamoDB serves both sides'
conditional writes. Exits with 1 if a record was missing or out of order, a child came before its parents, a repeat is
not explained by a checkpoint, a lease was stuck, or either side changed a row in a way that the protocol forbids.
Everything recorded stays in the folder that is named at the end. (`make interop` does the same with Java's own KCL.)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from infra.local.embedded import embedded_aws
from tests.mixed_fleet.stage import is_well, new_fleet, stage_of
from tests.mixed_fleet.story import Story
from tests.mixed_fleet.workers import KCL_RS_PYTHON, Employer

APPLICATION = "mixed-fleet"
SHARDS = 4


def main() -> int:
    if not KCL_RS_PYTHON.exists():
        print("kcl-rs is not installed: run `make mixed-fleet`", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="sublet-mixed-fleet-"))
    with embedded_aws() as aws:
        fleet = new_fleet(aws, APPLICATION, SHARDS, folder)
        stage = stage_of(fleet, folder, lambda line: print(line, flush=True))
        story = Story(stage, Employer(aws, APPLICATION, APPLICATION, folder))
        clean = is_well(stage, story.run)
    print(f"logs and records: {folder}")
    return int(not clean)


if __name__ == "__main__":
    sys.exit(main())
