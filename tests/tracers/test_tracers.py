"""sublet under the tracers that people run: it reads what was put, and they see calls, none of them failed.

They have an environment of their own, which `make tracers` makes: without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from infra.local import EmbeddedAws

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("TRACERS_PYTHON", ROOT / ".local/tracers/bin/python"))
PATIENCE = 120

SEE_SPANS = ("ddtrace", "opentelemetry", "xray")
"""The others keep spans only within a transaction of the thread, as a request's."""

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.explores,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs `make tracers`"),
]


@pytest.mark.parametrize("reading", ["polling", "fan_out"])
@pytest.mark.parametrize("tracer", ["nothing", "ddtrace", "opentelemetry", "xray", "sentry", "newrelic", "elastic"])
def test_records_are_read_under_a_tracer_and_no_call_is_an_error(
    embedded_aws: EmbeddedAws, tracer: str, reading: str
) -> None:
    script, stream = (
        Path(__file__).with_name("consume.py"),
        f"traced-{tracer}-{reading}-{os.getpid()}".replace("_", "-"),
    )
    done = subprocess.run(
        [str(PYTHON), str(script), tracer, reading, stream],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "layers/sublet/python"),
            **embedded_aws.environment,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["is_whole"], done.stderr[-3000:]
    of_tables = {error for error in found["errors"] if "dynamodb" in error.lower()}
    assert set(found["errors"]) <= of_tables, "it asks for tables that may be missing, and for nothing else"
    assert (found["spans"] > 0) == (tracer in SEE_SPANS)
