"""A process that ends on purpose: on Lambda when all is given back, in a process at the second signal."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.engine.process_health import LeftBehind
from sublet.engine.worker.worker import LeaseWorker
from sublet.handler import Batch
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.runtimes.ending import SPENT, stop_at_signals, stops, told_at_the_end
from sublet.runtimes.serverless import run_invocation
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import FakeClock
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    outcomes,
    raising,
)

OTHER = "shardId-000000000001"
ENDS = "ending this environment so that it is not reused"


@dataclass
class Environment:
    """A warm Lambda environment: one lease worker, one invocation after the other."""

    world: EngineWorld
    ended: list[int] = field(default_factory=list)
    worker: LeaseWorker = field(init=False)
    aws_request_id: str = "request"

    def __post_init__(self) -> None:
        self.worker = self.world.worker(replaced_at_once=True)

    def get_remaining_time_in_millis(self) -> int:
        return 900_000

    def invoke(self) -> dict[str, SessionOutcome]:
        """Put a record into each shard first."""
        for shard in range(2):
            self.world.put(f"{self.world.seconds()}/{shard}", shard=shard, of=2)
        item = self.world.item()
        report = run_invocation(self.worker, item, self, self.world.settings, self.ended.append)
        self.world.clock.advance(MINUTE)
        return outcomes(report)

    def why(self) -> list[object]:
        return [line.fields["because"] for line in self.world.log.lines if line.message == ENDS]


@pytest.fixture
def environment() -> Environment:
    return Environment(EngineWorld(replace(NO_WAITING, handler_attempts=2), shards=2))


def test_environment_with_a_hung_call_ends_after_releasing_all_leases() -> None:
    world = EngineWorld(replace(CONTINUOUS, handler_timeout=20 * SECOND), shards=2)
    environment = Environment(world)

    def script(batch: Batch) -> None:
        if batch.shard_id == SHARD:
            world.tasks.sleep(60 * MINUTE)

    world.handler.script = script
    held_at_the_end: list[str | None] = []

    def end(status: int) -> None:
        environment.ended.append(status)
        held_at_the_end.extend(lease.lease_owner for lease in world.table.real.scan().leases)

    world.put("a", shard=0, of=2)
    report = run_invocation(environment.worker, world.item(), environment, world.settings, end)
    assert outcomes(report) == {SHARD: SessionOutcome.HANDLER_HUNG, OTHER: SessionOutcome.WINDOW_ENDED}
    assert environment.ended == [SPENT]
    assert held_at_the_end == [None, None]
    assert environment.why() == ["a call of the handler hangs, and a thread cannot be ended"]
    assert report.next is AfterWindow.PROMPT


def test_healthy_environment_is_used_again(environment: Environment) -> None:
    environment.invoke()
    environment.invoke()
    assert environment.ended == []


@pytest.mark.parametrize(
    "fault", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")]
)
def test_environment_without_threads_or_descriptors_ends_at_once(environment: Environment, fault: Exception) -> None:
    environment.world.handler.script = raising(fault)
    environment.invoke()
    assert environment.ended == [SPENT]
    assert {lease.lease_owner for lease in environment.world.table.real.scan().leases} == {None}
    assert environment.world.seconds() < 62, "no backoff, no second attempt"


def test_process_releases_its_lease_and_exits_when_its_handler_leaks_descriptors() -> None:
    """Really: an environment like this was used again for ever, and failed each time."""
    module = [sys.executable, "-m", "tests.doubles.leaking_environment"]
    path = os.pathsep.join(path for path in sys.path if path)
    left = subprocess.run(
        module,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert left.returncode == SPENT, left.stderr
    told = re.fullmatch(r"(\d+) records, owner None\n", left.stdout)
    assert told, left.stdout
    assert 10 < int(told[1]) < 64


def test_environment_ends_when_the_table_needs_a_descriptor_and_none_is_left(
    environment: Environment,
) -> None:
    environment.world.table.disturb = raising(OSError(errno.EMFILE, "Too many open files"))
    with pytest.raises(OSError, match="Too many"):
        environment.invoke()
    assert environment.ended == [SPENT]


def test_environment_ends_once_when_a_handler_that_worked_fails_everywhere(
    environment: Environment,
) -> None:
    """Leaked memory, a broken connection pool. If it is an outage, the next one fails from its first call, and
    stays.
    """
    environment.invoke()
    environment.world.handler.script = raising(ConnectionError("the pool is closed"))
    assert set(environment.invoke().values()) == {SessionOutcome.HANDLER_FAILED}
    assert environment.ended == [SPENT]
    following = Environment(environment.world)
    following.invoke()
    following.invoke()
    assert following.ended == [], "a cold start for each window would mend nothing, and cost"


def test_a_bad_deployment_ends_no_environment(environment: Environment) -> None:
    environment.world.handler.script = raising(KeyError("a field that is no longer there"))
    for _ in range(3):
        environment.invoke()
    assert environment.ended == []


# In a process


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_the_first_signal_stops_and_the_second_ends_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    tasks, ended, clock = ThreadTasks(), list[int](), FakeClock()
    told = stops(tasks)
    left = LeftBehind(SHARD, TRIM_HORIZON, Checkpoint("7"), "handle, after 0 records of 3 from 8")
    stop_at_signals(told, 110 * SECOND, tasks, lambda: [left], ended.append, clock)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert told.leaving.is_set()
    assert not told.stop.is_set()
    assert ended == [], "one Ctrl-C may arrive twice"
    clock.advance(SECOND)
    os.kill(os.getpid(), signal.SIGTERM)
    assert ended == [128 + signal.SIGTERM]
    told.is_over.set()
    said = capfd.readouterr().err
    assert "second signal, SIGTERM" in said
    assert f"{SHARD}, checkpoint TRIM_HORIZON, handled up to 7, in a call of handle" in said


@pytest.mark.usefixtures("handlers")
def test_a_process_that_does_not_end_by_itself_is_ended_when_its_time_is_over(
    capfd: pytest.CaptureFixture[str],
) -> None:
    clock = FakeClock()
    tasks, ended = TurnTaking(clock), list[int]()
    told = stops(tasks)
    stop_at_signals(told, 110 * SECOND, tasks, tuple, ended.append, clock)
    os.kill(os.getpid(), signal.SIGTERM)
    tasks.sleep(109 * SECOND)
    assert ended == []
    tasks.sleep(2 * SECOND)
    assert ended == [128 + signal.SIGTERM]
    assert "drain_timeout is over; no lease was held" in capfd.readouterr().err


@pytest.mark.usefixtures("handlers")
def test_ctrl_c_stops_at_once_and_ends_no_finished_process() -> None:
    clock = FakeClock()
    tasks, ended = TurnTaking(clock), list[int]()
    told = stops(tasks)
    stop_at_signals(told, 110 * SECOND, tasks, tuple, ended.append, clock)
    os.kill(os.getpid(), signal.SIGINT)
    assert told.stop.is_set()
    told.is_over.set()
    tasks.sleep(200 * SECOND)
    assert ended == []


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_forked_child_takes_signals_as_if_nothing_had_been_set(number: signal.Signals) -> None:
    """Or multiprocessing.Pool, which ends its forked workers by SIGTERM, waits for them for ever."""
    tasks = ThreadTasks()
    signal.signal(number, signal.SIG_DFL)
    told = stops(tasks)
    stop_at_signals(told, 110 * SECOND, tasks)
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), number)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == number
    os.kill(os.getpid(), number)
    assert told.leaving.is_set() or told.stop.is_set(), "its parent takes them as before"
    told.is_over.set()


@pytest.mark.usefixtures("handlers")
def test_forked_child_gets_signals_that_arrive_before_its_handlers_are_restored() -> None:
    """A pool ends workers that have only just been forked. Python forgets what its own handler has taken until then."""
    tasks = ThreadTasks()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    comes = [True]
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM) if comes else None)
    put_back = stop_at_signals(stops(tasks), 110 * SECOND, tasks)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child = os.fork()
    if child == 0:
        os._exit(0)
    comes.clear()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before, "its parent goes on taking them"
    child = os.fork()
    if child == 0:
        os._exit(len(signal.pthread_sigmask(signal.SIG_BLOCK, ()) ^ before))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "nothing is held back in a child"
    put_back()


@pytest.mark.usefixtures("handlers")
def test_signal_handler_that_the_program_sets_stays_in_forks_and_afterwards() -> None:
    own: list[int] = []
    tasks = ThreadTasks()
    put_back = stop_at_signals(stops(tasks), 110 * SECOND, tasks)
    signal.signal(signal.SIGTERM, lambda number, _: own.append(number))
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(len(own))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    put_back()
    os.kill(os.getpid(), signal.SIGTERM)
    assert own == [signal.SIGTERM]


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_framework_s_own_handler_is_called_once_after_ours(number: signal.Signals) -> None:
    """uvicorn ends only if its own handler is called, and a consumer in its lifespan ends only if uvicorn does."""
    tasks, told, seen = ThreadTasks(), stops(ThreadTasks()), list[tuple[int, bool]]()
    signal.signal(number, lambda got, _: seen.append((got, told.leaving.is_set() or told.stop.is_set())))
    put_back = stop_at_signals(told, 110 * SECOND, tasks, clock=FakeClock())
    os.kill(os.getpid(), number)
    os.kill(os.getpid(), number)
    assert seen == [(number, True)]
    told.is_over.set()
    put_back()


@pytest.mark.usefixtures("handlers")
def test_a_framework_s_handler_that_exits_cuts_nothing_short_and_exits_at_the_end() -> None:
    tasks = ThreadTasks()
    told = stops(tasks)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    put_back = stop_at_signals(told, 110 * SECOND, tasks, clock=FakeClock())
    os.kill(os.getpid(), signal.SIGTERM)
    assert told.leaving.is_set()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "nothing is raised in a fork"
    told.is_over.set()
    with pytest.raises(SystemExit, match="3"):
        put_back()


@pytest.mark.usefixtures("handlers")
def test_ctrl_c_interrupts_no_program_that_asyncio_runs() -> None:
    async def program() -> bool:
        tasks = ThreadTasks()
        told = stops(tasks)
        put_back = stop_at_signals(told, 110 * SECOND, tasks, clock=FakeClock())
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        told.is_over.set()
        put_back()
        return told.stop.is_set()

    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert asyncio.run(program())


def test_second_signal_message_says_that_no_lease_was_held() -> None:
    assert told_at_the_end("a second SIGINT", []).endswith("SIGINT; no lease was held\n")


def test_worker_tells_at_any_moment_what_it_would_leave() -> None:
    world = EngineWorld(NO_WAITING)
    first, _ = world.put("a", "b")
    seen: list[LeftBehind] = []
    worker = world.worker()

    def script(batch: Batch) -> None:
        batch.checkpoint(batch.records[0])
        seen.extend(worker.left())

    world.handler.script = script
    world.window(worker=worker)
    assert seen == [
        LeftBehind(
            SHARD,
            TRIM_HORIZON,
            Checkpoint(first, 0),
            f"handle, after 1 records of 2 from {Checkpoint(first, 0)}",
        )
    ]
    assert worker.left() == ()


@pytest.mark.usefixtures("handlers")
def test_consumers_that_end_in_any_order_leave_the_program_s_signal_handlers() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    told = [stops(ThreadTasks()) for _ in range(3)]
    first, second, third = (stop_at_signals(each, 110 * SECOND, ThreadTasks()) for each in told)
    second()
    first()
    third()
    assert {number: signal.getsignal(number) for number in before} == before
