"""The demo, from an empty machine to the proof: set up, deploy, let events flow, wait for the last, prove."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from sublet.decisions.status.status_rules import Status

from demo.consumer import LOOK, STREAM, deploy_consumer
from demo.flights import Flight, airlines, events_per_key, figures, read_flights
from demo.page import console_page
from demo.producer import FlightProducer, as_events
from demo.prompts import Prompter
from demo.proof import Proof, prove
from demo.report import checks, draw_report
from demo.reshards import MERGE_AFTER, SPLIT_AFTER, Operator, interrupted
from demo.screen import save_svg, shown
from demo.snapshot import Phase, Snapshot
from demo.story import Story
from demo.view import draw
from demo.watch import Watcher
from infra.local import EmbeddedAws, embedded_aws

STUCK_AFTER = 90.0
"""Seconds without another event handled, including a tick's minute, after which the demo gives up."""

RELEASED_WITHIN = 20.0
"""Seconds for the workers to leave after the last event."""

PICTURE_AFTER = 0.62
"""The fraction of all events after which the picture for --svg may be taken: both reshards are done then."""


class DemoFailed(Exception):
    """The demo could not finish."""


@dataclass(slots=True)
class Run:
    """One run's parts, created one after the other."""

    story: Story
    watcher: Watcher | None = None
    picture: Snapshot | None = None

    def latest(self) -> Snapshot:
        return self.watcher.latest if self.watcher else Snapshot()

    def keep_picture(self, total: int) -> None:
        """Keeps the liveliest snapshot after the split and the merge: the most shards with an owner, events
        waiting, and the status OK."""
        snapshot = self.latest()
        is_in_time = snapshot.handled_in_all >= total * PICTURE_AFTER and snapshot.put_in_all < total
        if is_in_time and (self.picture is None or liveliness(snapshot) > liveliness(self.picture)):
            self.picture = self.story.complete(snapshot)


def liveliness(snapshot: Snapshot) -> int:
    """How much a picture of the snapshot would show: owners, waiting events, and shards that have been watched for long
    enough to be OK.
    """
    owned = [shard_id for shard_id, lease in snapshot.leases.items() if lease.owner]
    is_ok = [] if snapshot.fleet is None else [each for each in snapshot.fleet.shards if each.status is Status.OK]
    return len(owned) + sum(bool(snapshot.waiting(shard_id)) for shard_id in owned) + len(is_ok)


def run(events: int, svg: Path | None, console: Console) -> int:
    """Returns 0 if the proof holds, 1 if not. Raises DemoFailed, or the embedded AWS' error, if it did not get that
    far."""
    story = Story()
    state = Run(story)
    with ExitStack() as until_reported:
        with shown(console, story, state.latest):
            story.phase(Phase.READ)
            flights = list(read_flights(events))
            story.phase(Phase.START)
            aws = until_reported.enter_context(embedded_aws())
            proof = _on(aws, state, flights, until_reported, with_page=svg is None)
        report = draw_report(proof, state.latest(), figures(flights), airlines())
        console.print("", report)
        story.phase(Phase.STOP)
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in story.durations())
    console.print(f"\nNothing is left running. Where the time went: {times}")
    if svg is not None:
        save_svg(svg, draw(state.picture or state.latest()), checks(proof))
        console.print(f"The picture is {svg}")
    return 0 if proof.holds else 1


def _on(aws: EmbeddedAws, state: Run, flights: list[Flight], until_reported: ExitStack, *, with_page: bool) -> Proof:
    """`with_page`: offer the console while it runs."""
    story, kinesis = state.story, aws.client("kinesis")
    story.phase(Phase.DEPLOY)
    consumer = deploy_consumer(aws, story.detail)
    if with_page and (link := until_reported.enter_context(console_page(aws))) is not None:
        story.tell(f"in a browser: {link}")
    list_shards = consumer.stream.list_shards
    operator = Operator(kinesis, STREAM, list_shards, story)
    actions = {
        int(len(flights) * SPLIT_AFTER): operator.split,
        int(len(flights) * MERGE_AFTER): operator.merge,
    }
    source = interrupted(as_events(flights), actions)
    producer = FlightProducer(aws.account(), STREAM, source)
    state.watcher = Watcher(consumer, producer, story, len(flights))
    story.phase(Phase.FLOW)
    with going_on(producer, state.watcher):
        _until_handled(Prompter(aws.client("lambda"), consumer.manager), state, producer, len(flights))
        story.phase(Phase.LEAVE)
        until_released(state.watcher)
    story.phase(Phase.PROVE)
    return prove(consumer.stored(), list_shards(), events_per_key(flights), figures(flights))


@contextmanager
def going_on(producer: FlightProducer, watcher: Watcher) -> Iterator[None]:
    producer.start()
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()
        producer.stop()


def _until_handled(prompter: Prompter, state: Run, producer: FlightProducer, total: int) -> None:
    story, moved_at, handled = state.story, time.monotonic(), 0
    while True:
        time.sleep(LOOK)
        if producer.failure is not None:
            raise DemoFailed(f"the producer gave up: {producer.failure}") from producer.failure
        if producer.is_done and story.current_phase is Phase.FLOW:
            story.phase(Phase.LAST)
        snapshot, now = state.latest(), time.monotonic()
        state.keep_picture(total)
        if snapshot.handled_in_all >= total and producer.is_done:
            return
        if snapshot.handled_in_all > handled:
            handled, moved_at = snapshot.handled_in_all, now
        if now - moved_at > STUCK_AFTER:
            story.tell(f"no event handled for {STUCK_AFTER:.0f} s: giving up")
            return
        prompter.look(snapshot, now)


def until_released(watcher: Watcher) -> None:
    deadline = time.monotonic() + RELEASED_WITHIN
    while time.monotonic() < deadline:
        time.sleep(LOOK)
        if not watcher.latest.executions_running and not any(lease.owner for lease in watcher.latest.leases.values()):
            return
