"""`python -m tests.upgrades.record` rewrites tests/data/upgrades: what release 0.2 shows, stores and deploys, by its
own code.

So the fast tests need no history. They are data of a release: rewrite them only to record more of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.upgrades.released import DATA, NOW, Code, released_code
from tests.upgrades.shown_names import BY_ITS_FILES, names_shown

PROGRAMS = Path(__file__).parent / "programs"


def run_by(code: Code, program: str, *arguments: str, given: Any = None, python: str = sys.executable) -> Any:
    """A program's answer, by that version's code. Raises AssertionError with what it wrote if it fails."""
    environment = code.environment({"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20"})
    environment["PYTHONPATH"] += os.pathsep + str(NOW.tree)  # the tests' own modules
    done = subprocess.run(
        [python, str(PROGRAMS / f"{program}.py"), *arguments],
        env=environment,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{program} by {code.version}: {done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def templates_of(code: Code) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "layer" / "python").mkdir(parents=True)
        (Path(folder) / "layer" / "python" / "dependency.py").touch()
        (Path(folder) / "code").mkdir()
        (Path(folder) / "code" / "orders.py").write_text("def handle(batch): ...\n")
        return run_by(code, "templates", folder)


def main() -> None:
    released = released_code()
    shown = names_shown(released.tree) | BY_ITS_FILES
    failed = run_by(released, "import_names", given=list(shown))
    stored = run_by(released, "own_stored")
    recorded = {
        "names": {name: documents for name, documents in shown.items() if name not in failed},
        "surface": run_by(released, "surface"),
        "stored": {**stored, "means": run_by(released, "stored", given=stored)["means"]},
        "templates": templates_of(released),
    }
    DATA.mkdir(exist_ok=True)
    for name, value in recorded.items():
        (DATA / f"{name}.json").write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
    print("names that documents mention and nobody can import:", *sorted(failed))


if __name__ == "__main__":
    main()
