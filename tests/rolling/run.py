"""One run: 0.2 by its own code, then this version over it, back, and forward again, while records come, handlers fail
and shards split and merge; then the verdict on every record.

A user's CDK app is deployed (project.py), whose stack imports its lease table and is used by another one
(around.py).
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from botocore.exceptions import BotoCoreError, ClientError

from infra.local.deploy import deploy
from infra.local.embedded import ROOT, EmbeddedAws, embedded_aws
from tests.chaos.journal import Call, Journal
from tests.chaos.observer import Observer
from tests.chaos.recovery import NANOSECONDS
from tests.chaos.repeating import repeating
from tests.chaos.verdict import Verdict, judge
from tests.e2e.deliveries import Recorder
from tests.e2e.fleet import Fleet
from tests.rolling.around import Around, Kept, make_lease_table, other_stack, project_of
from tests.rolling.version import RELEASED, deploy_by, python_of, tree_of

APPLICATION = "rolling"
SHARDS = 2
KEYS = [f"key-{n}" for n in range(20)]
PRODUCE_EVERY = 0.5
"""Seconds between two rounds of one event for each key; every fourth is of KPL aggregates of three: 60 events a
second."""

TICK_SECONDS = 10.0
"""EventBridge's shortest schedule is a minute."""

FAILURE_RATE = 0.05
SETTINGS = {
    "mode": "continuous",
    "parallelization_factor": "4",
    "failover_time": "9s",
    "heartbeat_interval": "3s",
    "window": "30s",
    "window_margin": "5s",
    "windows_per_execution": "6",
    "checkpoint_interval": "5s",
    "worker_count": "2",
    "leases_per_worker": "2",
    "idle_poll_interval": "200ms",
    "handler_attempts": "3",
    "handler_backoff": "100ms",
    "handler_backoff_max": "1s",
}
"""Settings that both versions have under the same names. Windows and executions are short, so that each deployment
meets the ends of some."""

WHEEL = "needed-1.0-py3-none-any.whl"
IN_WHEEL = {
    "needed.py": "IT = 1\n",
    "needed-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: needed\nVersion: 1.0\n",
    "needed-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "needed-1.0.dist-info/RECORD": "needed.py,,\nneeded-1.0.dist-info/METADATA,,\nneeded-1.0.dist-info/WHEEL,,\n",
}
REQUIRING = """import needed

from flaky import handle, lease_acquired, shard_ended

assert needed.IT
"""

FIRST_WITHIN = 90.0
DRAINED_WITHIN = 180.0
NOW = "now"

Say = Callable[[str], None]


class RollingFailed(Exception):
    """The run could not finish."""


class Phase(NamedTuple):
    """From the beginning of a deployment until the next one begins; times in nanoseconds since the epoch."""

    version: str
    began: int
    deployed: int


class PhaseFigures(NamedTuple):
    """`again`: records that were done once more than before. `longest_pause`: seconds in which an open shard had no
    call."""

    version: str
    deployment_seconds: float
    calls: int
    again: int
    longest_pause: float


@dataclass(frozen=True, slots=True)
class Found:
    verdict: Verdict
    phases: Sequence[PhaseFigures]
    reshards: int
    wrong: Sequence[str]
    """Broken rules of the lease table; and what a deployment has changed around the stack."""

    @property
    def is_clean(self) -> bool:
        return self.verdict.is_clean and not self.wrong


@dataclass
class Story:
    aws: EmbeddedAws
    older: Path
    folder: Path
    context: Mapping[str, str]
    settle: float
    say: Say
    fleet: Fleet = field(init=False)
    around: Around = field(init=False)
    first: Kept = field(init=False)
    journal: Journal = field(init=False)
    observer: Observer = field(init=False)
    phases: list[Phase] = field(default_factory=list)
    reshards: int = 0
    wrong: list[str] = field(default_factory=list)

    def deploy(self, version: str) -> dict[str, str]:
        """The user's app, with that version; returns the outputs as the other stack has them."""
        began = time.time_ns()
        stack, folder = other_stack(APPLICATION), self.folder / f"project-{version}"
        if version == NOW:
            outputs = deploy(self.aws, self.context, stack=stack, folder=folder, report=lambda _: None)
        else:
            outputs = deploy_by(self.older, self.aws, self.context, stack=stack, folder=folder)
        self.phases.append(Phase(version, began, time.time_ns()))
        self.say(f"{version} deployed in {(time.time_ns() - began) / NANOSECONDS:.0f} s")
        return outputs

    def begin(self, version: str) -> None:
        project_of(self.folder / f"project-{version}", python_of(self.older))
        project_of(self.folder / f"project-{NOW}", Path(sys.executable))
        outputs = self.deploy(version)
        self.fleet = Fleet(self.aws, APPLICATION, outputs, Recorder(self.folder))
        self.journal = Journal(self.folder)
        self.observer = Observer(self.aws.client("dynamodb"), outputs["LeaseTable"])
        self.around = Around(self.aws, APPLICATION)
        self.first = self.around.kept()
        if not (outputs["LeaseWorker"] in self.first.imports.values() and len(self.first.alarms) == 2):
            raise RollingFailed(f"the user's stacks are not as meant: {self.first}")

    @contextmanager
    def under_load(self) -> Iterator[None]:
        with (
            repeating(TICK_SECONDS, self._tick),
            repeating(1.0, self.observer.look),
            repeating(PRODUCE_EVERY, self._producer()),
        ):
            self.until("a call for each shard", FIRST_WITHIN, self._all_deliver)
            self._settle()
            self._look_around()
            yield

    def go_to(self, version: str, reshard: Callable[[], None]) -> None:
        """While records come; the reshard starts with the deployment."""
        before = {shard["ShardId"] for shard in self.fleet.open_shards()}
        with ExitStack() as stack:
            once = stack.enter_context(repeating(3600, reshard))
            outputs = self.deploy(version)
            if once.failure is not None:
                raise RollingFailed(f"the reshard failed: {once.failure}")
        self.reshards += {shard["ShardId"] for shard in self.fleet.open_shards()} != before
        self.fleet.outputs = outputs
        self._settle()
        self.until("a call for each shard", FIRST_WITHIN, self._all_deliver)
        self._look_around()

    def _look_around(self) -> None:
        """Once this version's ticks have begun."""
        version, _, deployed = self.phases[-1]
        outputs = self.fleet.outputs
        self.until(
            f"{version} puts what the user's alarm watches",
            FIRST_WITHIN,
            lambda: self.around.is_published(self.first, outputs, deployed),
        )
        wrong = list(self.around.wrong(self.first, outputs))
        rows = self.fleet.leases().keys()
        wrong += [
            f"the imported table has no lease of {shard['ShardId']}"
            for shard in self.fleet.open_shards()
            if shard["ShardId"] not in rows
        ]
        self.wrong += [f"by {version}: {text}" for text in wrong]

    def _settle(self) -> None:
        until = time.monotonic() + self.settle
        while time.monotonic() < until:
            time.sleep(0.5)
            self.journal.read()

    def drained(self) -> None:
        put = set(self.fleet.put)
        with repeating(TICK_SECONDS, self._tick):
            self.until("all are handled", DRAINED_WITHIN, lambda: put <= self.journal.handled, can_fail=False)

    def until(self, what: str, seconds: float, done: Callable[[], bool], *, can_fail: bool = True) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                if can_fail:
                    raise RollingFailed(f"not within {seconds:.0f} s: {what}")
                return
            time.sleep(0.2)
            self.journal.read()

    def found(self) -> Found:
        self.journal.read()
        verdict = judge(self.fleet.put, self.journal.entries, self.observer.rows, {})
        return Found(verdict, self._figures(), self.reshards, [*self.wrong, *self.observer.wrong])

    def _figures(self) -> list[PhaseFigures]:
        calls = sorted((e for e in self.journal.entries if isinstance(e, Call)), key=lambda call: call.at)
        ends = [phase.began for phase in self.phases[1:]] + [max(call.at for call in calls) + 1]
        done: set[str] = set()
        figures = []
        for phase, until in zip(self.phases, ends, strict=True):
            mine = [call for call in calls if phase.began <= call.at < until]
            texts = [record.text for call in mine for record in call.records[: call.done]]
            again = len(texts) - len(set(texts) - done)
            done.update(texts)
            seconds = (phase.deployed - phase.began) / NANOSECONDS
            figures.append(PhaseFigures(phase.version, seconds, len(mine), again, _longest_pause(mine)))
        return figures

    def _all_deliver(self) -> bool:
        since = self.phases[-1].deployed
        open_shards = {shard["ShardId"] for shard in self.fleet.open_shards()}
        lately = {shard for shard, call in self.journal.last_call.items() if call.at > since}
        return open_shards <= lately

    def _tick(self) -> None:
        """A function that is being replaced may refuse."""
        with suppress(AssertionError, BotoCoreError, ClientError, ValueError):
            self.fleet.tick()

    def _producer(self) -> Callable[[], object]:
        turn = 0

        def produce() -> None:
            nonlocal turn
            turn += 1
            self.fleet.produce(KEYS, aggregated=turn % 4 == 0)

        return produce


def run(folder: Path, say: Say, settle: float = 25.0, older: str = RELEASED) -> Found:
    """Raises RollingFailed, and errors of the embedded AWS and the deployments."""
    tree = tree_of(older, say)
    with embedded_aws() as aws:
        story = Story(aws, tree, folder, _prepared(aws, folder), settle, say)
        try:
            story.begin(older)
            with story.under_load():
                (folder / "failure-rate").write_text(str(FAILURE_RATE))
                story.go_to(NOW, story.fleet.split)
                story.go_to(older, story.fleet.merge)
                story.go_to(NOW, story.fleet.split)
            story.drained()
            return story.found()
        finally:
            for server in aws.servers:
                shutil.copyfile(server.log, folder / f"{server.name}.log")


def _prepared(aws: EmbeddedAws, folder: Path) -> dict[str, str]:
    """The stream, and the context for deploying both versions."""
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=APPLICATION, ShardCount=SHARDS)
    kinesis.get_waiter("stream_exists").wait(StreamName=APPLICATION, WaiterConfig={"Delay": 1})
    summary = kinesis.describe_stream_summary(StreamName=APPLICATION)["StreamDescriptionSummary"]
    make_lease_table(aws, APPLICATION)
    (folder / "failure-rate").write_text("0")
    return {
        "application": APPLICATION,
        "existing_lease_table": "true",
        "stream_arn": summary["StreamARN"],
        "handler_code": str(_handler_with_requirements(folder)),
        "handler": "requiring:handle",
        "handler_environment": json.dumps({"CHAOS_FOLDER": str(folder), "CHAOS_SEED": "rolling"}),
        **SETTINGS,
    }


def _handler_with_requirements(folder: Path) -> Path:
    """A user's folder, whose packages each version's own code installs beside it."""
    code = folder / "code"
    code.mkdir()
    shutil.copy(ROOT / "tests" / "chaos" / "handlers" / "flaky.py", code)
    (code / "requiring.py").write_text(REQUIRING)
    (code / "requirements.txt").write_text(f"./{WHEEL}\n")
    with ZipFile(code / WHEEL, "w") as wheel:
        for name, text in IN_WHEEL.items():
            wheel.writestr(name, text)
    return code


def _longest_pause(calls: Sequence[Call]) -> float:
    """Of any shard, between its first call and its last."""
    last: dict[str, int] = {}
    longest = 0
    for call in calls:
        longest = max(longest, call.at - last.get(call.shard_id, call.at))
        last[call.shard_id] = call.at
    return longest / NANOSECONDS
