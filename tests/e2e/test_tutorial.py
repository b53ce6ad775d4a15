"""Each command of docs/tutorial.md up to the real account, typed in a fresh folder, against `make local`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.local import EmbeddedAws, embedded_aws
from infra.local.deploy import INHERITED
from infra.local.embedded import ROOT
from tests.docs.documents import blocks
from tests.exploring import explores

PAGE = ROOT / "docs" / "tutorial.md"
FIRST_HANDLER, TEST, REPAIRED = [block.text for block in blocks(PAGE) if block.language == "python"]
BEFORE = ("make setup", "make local", "mkdir ", "cd ")
"""What the fixtures do."""
ELSEWHERE = "## 6. To a real account"
WITHIN = 240.0
"""Seconds for what needs a tick and a cold start on a busy machine."""

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


def commands(text: str) -> list[str]:
    """The page's commands, with continuations joined; what they print is left out."""
    joined = text.replace("\\\n", " ")
    every = re.findall(r"^    ((?:make|export|mkdir|cd|python|sublet|npx) ?.*)$", joined, re.MULTILINE)
    return [" ".join(each.split()) for each in every]


def printed(text: str, command: str) -> list[str]:
    """What the page shows below a command, with each number, time and name of a host as N."""
    below = text.partition(f"\n    {command}\n\n")[2]
    lines = re.match(r"(?:    \S.*\n|     +\S.*\n)*", below)
    assert lines is not None
    return [_general(line) for line in lines[0].splitlines()]


def _general(line: str) -> str:
    return " ".join(re.sub(r"\S*\d\S*", "N", line).split())


class Terminal:
    """A shell's variables and folder. `sublet run` goes on in the background."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        (folder / "node_modules").symlink_to(ROOT / "node_modules")  # or npx would fetch the CDK's command line
        self.folder = folder / "orders"
        self.folder.mkdir()
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.environment = {**kept, **aws.environment, "PATH": path, "CI": "true", "NODE_NO_WARNINGS": "1"}

    def types(self, command: str) -> str:
        """What it says. An export holds from then on."""
        marker = "---exported---"
        done = subprocess.run(
            ["/bin/sh", "-c", f'{command}\ncode=$?\necho "{marker}"\nenv -0\nexit $code'],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        said, _, exported = done.stdout.partition(f"{marker}\n")
        assert done.returncode == 0, f"{command}\n{said[-3000:]}"
        if command.startswith("export "):
            self.environment = dict(each.split("=", 1) for each in exported.split("\0") if "=" in each)
        return said

    @contextmanager
    def in_background(self, command: str) -> Iterator[Callable[[], str]]:
        """Its output so far. Ctrl-C ends it, and must end it well."""
        log = self.folder.parent / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield log.read_text
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0, log.read_text()[-3000:]
        finally:
            process.kill()
            process.wait()


def wait_for(text: str, said: Callable[[], str]) -> None:
    until = time.monotonic() + WITHIN
    while text not in said():
        assert time.monotonic() < until, f"{text!r} does not come; the end: {said()[-3000:]}"
        time.sleep(1)


@explores
def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text().partition(ELSEWHERE)[0]
    typed = iter(each for each in commands(page) if not each.startswith(BEFORE))

    def type_next(beginning: str) -> str:
        command = next(typed)
        assert command.startswith(beginning)
        said = terminal.types(command)
        for line in printed(page, command):
            assert line in [_general(each) for each in said.splitlines()], f"{command} did not say: {line}\n{said}"
        return said

    with embedded_aws() as aws:
        terminal = Terminal(aws, tmp_path)
        terminal.environment["PWD"] = str(ROOT)
        next(typed)  # export PATH=..., which is this environment's; metrics stay in the log
        (terminal.folder / "orders.py").write_text(FIRST_HANDLER)
        (terminal.folder / "test_orders.py").write_text(TEST)
        assert "1 passed" in type_next("python -m pytest")
        type_next("python -c")
        type_next("python -c")
        for _ in range(3):
            type_next("export")
        with terminal.in_background(next(typed)) as log:
            type_next("sublet put")
            wait_for("order 1 of shardId-000000000000", log)
            status = next(typed)
            (_, *shown) = printed(page, status)
            wait_for(" ".join(shown), lambda: " ".join(map(_general, terminal.types(f"{status} || true").splitlines())))
            type_next("sublet put oops")
            type_next("sublet put")
            wait_for("order 2 of", log)
            type_next("sublet redrive --show")
            (terminal.folder / "orders.py").write_text(REPAIRED)
            type_next("sublet redrive")
        said = type_next("sublet deploy")
        assert "AWS is on this machine" in said
        assert said.count("belongs to no stack: this one continues with it") == 2
        type_next("sublet put")
        peek = next(typed)
        wait_for("nothing follows in shard", lambda: terminal.types(f"{peek} || true"))
        assert list(typed) == []


def test_tutorial_ends_in_a_real_account_with_the_same_command() -> None:
    here, _, there = PAGE.read_text().partition(ELSEWHERE)
    assert commands(there)[1].startswith("sublet deploy --application orders-audit --stream-arn ")
    assert len(commands(here)) > 15
