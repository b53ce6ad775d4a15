"""A commit's worlds are new, and a checkout's always the same: no run depends on luck."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.simulation.seeds import FIRST_SEED, FIRST_SEEDS, SEEDS, commit_of, seeds_to_run

ONE = "f5555cf09c8ab5a0a9a2bd7b62e0e5a2a0d0c4b1"
OTHER = "384fa4e2f1b1ce8a7f6d5e4c3b2a190817263544"


def test_each_commit_has_worlds_of_its_own() -> None:
    one, again, other = seeds_to_run({}, ONE), seeds_to_run({}, ONE), seeds_to_run({}, OTHER)
    assert one == again
    assert len(one) == len(other) == SEEDS
    assert not set(one) & set(other)
    assert 0 <= one.start < FIRST_SEEDS


def test_without_a_commit_they_are_always_the_same() -> None:
    assert seeds_to_run({}, None) == range(FIRST_SEED, FIRST_SEED + SEEDS)


@pytest.mark.parametrize("commit", [ONE, None])
def test_whoever_runs_it_may_choose(commit: str | None) -> None:
    assert seeds_to_run({"SIMULATION_FROM": "17", "SIMULATION_SEEDS": "3"}, commit) == range(17, 20)
    assert len(seeds_to_run({"SIMULATION_SEEDS": "3"}, commit)) == 3
    assert seeds_to_run({"SIMULATION_FROM": "", "SIMULATION_SEEDS": ""}, commit) == seeds_to_run({}, commit)


def test_the_commit_is_the_one_checked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) is None, "no repository"
    git(tmp_path, "init", "--quiet")
    assert commit_of(tmp_path) is None, "no commit yet"
    commits = []
    for number in range(2):
        git(tmp_path, "commit", "--quiet", "--allow-empty", f"--message={number}")
        commits.append(commit_of(tmp_path))
    assert commits[1] == git(tmp_path, "rev-parse", "HEAD")
    assert commits[0] == git(tmp_path, "rev-parse", "HEAD^")


def test_no_git_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(Path(__file__).parent) is None


def git(folder: Path, *arguments: str) -> str:
    somebody = [
        "-c",
        "user.name=somebody",
        "-c",
        "user.email=somebody@example.com",
        "-c",
        "commit.gpgsign=false",
    ]
    done = subprocess.run(
        ["git", *somebody, *arguments],  # noqa: S607 -- wherever the machine keeps it
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
