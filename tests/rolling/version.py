"""An earlier version's own tree and environment, from this repository's history; and its stack, deployed by its own
code."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.local.deploy import DeploymentFailed
from infra.local.embedded import ROOT, EmbeddedAws

COMMITS = {"0.1": "186d150", "0.2": "c74b204"}
"""The last commit of each version: none is tagged."""

RELEASED = "f385c87e"
"""0.2 as it was released, with everything that came after the commit above. `make upgrades` starts from it."""

TREES = ROOT / ".local" / "versions"
DEPLOYS = """
import json, sys
from pathlib import Path
from infra.local.deploy import deploy
from infra.local.embedded import EmbeddedAws
given = json.load(sys.stdin)
outputs = deploy(
    EmbeddedAws(given["environment"], ()), given["context"], stack=given["stack"], folder=Path(given["folder"]),
    report=lambda line: print(line, file=sys.stderr),
)
print(json.dumps(outputs))
"""
TAIL = 30


class NoSuchVersion(Exception):
    """Its commit is not in this repository: a shallow clone, or an archive."""


def source_of(commit: str, folder: Path, *paths: str) -> Path:
    """Writes the commit's files, or only these paths, to `folder`. Raises NoSuchVersion."""
    archive = subprocess.run(
        ["git", "archive", commit, *paths],  # noqa: S607 - whichever git made the clone
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        raise NoSuchVersion(f"{commit}: {archive.stderr.decode(errors='replace').strip()}")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)  # noqa: S607
    return folder


def tree_of(commit: str, report: Callable[[str], None]) -> Path:
    """With everything that `make setup` creates. A minute the first time."""
    tree = TREES / commit
    if not (tree / ".set-up").exists():
        report(f"setting up {commit}, in {tree.relative_to(ROOT)}")
        source_of(commit, tree)
        made = subprocess.run(
            ["make", "setup"],  # noqa: S607
            cwd=tree,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if made.returncode:
            raise DeploymentFailed(f"make setup of {commit}: {made.stdout[-2000:]}")
        (tree / ".set-up").touch()
    return tree


def python_of(tree: Path) -> Path:
    """The tree's own."""
    return tree / ".venv" / "bin" / "python"


def deploy_by(tree: Path, aws: EmbeddedAws, context: Mapping[str, str], *, stack: str, folder: Path) -> dict[str, str]:
    """A stack of the CDK app in `folder`, as a user of that version alone would. Returns its outputs; raises
    DeploymentFailed.
    """
    given = {
        "environment": dict(aws.environment),
        "context": dict(context),
        "stack": stack,
        "folder": str(folder),
    }
    inherited = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    path = f"{tree / '.venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    done = subprocess.run(
        [str(python_of(tree)), "-c", DEPLOYS],
        cwd=tree,
        env={**inherited, "PATH": path, "VIRTUAL_ENV": str(tree / ".venv"), **aws.environment},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stderr.splitlines()[-TAIL:])
        raise DeploymentFailed(f"the deployment by {tree.name} failed. Its last lines:\n{last}")
    outputs: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return outputs
