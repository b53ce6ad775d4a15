"""`import sublet` is what every handler's module begins with: it loads what a handler meets, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = "import json, sys, sublet; print(json.dumps(sorted(sys.modules)))"
HEAVY = ("boto3", "botocore", "aws_lambda_powertools", "google.protobuf", "pyspark")


def test_import_loads_no_aws_library_and_none_of_what_the_engine_alone_needs() -> None:
    """Under 30 ms: boto3 alone takes 200, and the decisions 10."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = json.loads(done.stdout)
    assert [name for name in loaded if name.startswith(HEAVY)] == []
    inner = ("sublet.decisions", "sublet.engine", "sublet.aws", "sublet.memory", "sublet.runtimes")
    assert [name for name in loaded if name.startswith(inner)] == []
