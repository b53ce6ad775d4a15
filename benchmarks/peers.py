"""The peers' environment, `.local/bench`, separate from sublet's own, because some of them pin old boto3 or
protobuf.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".local/bench/bin/python"
MISSING = "no peers: `make bench` installs them in .local/bench; these figures are sublet's alone"


def measured_beside_peers(module: str) -> Any:
    """The JSON printed by `python -m <module>`, run in the peers' environment, or in ours if that does not exist.

    One process measures sublet and its peers in turns, so that anything that slows the machine slows them all.
    """
    paths = [str(ROOT / "layers/sublet/python"), str(ROOT)]
    python = str(PYTHON) if PYTHON.exists() else sys.executable
    run = subprocess.run(
        [python, "-m", module],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    return json.loads(run.stdout)
