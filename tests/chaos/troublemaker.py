"""Carries out a plan: each fault at its time, done to whatever it can hit, and recorded."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.chaos.fleet import ChaosFleet
from tests.chaos.plan import Kind, Pace, Planned, Trouble
from tests.chaos.processes import processes_of, send
from tests.chaos.recovery import NANOSECONDS, Fault

SPELL = 60.0
"""Seconds. Half of the time only workers are hit, to measure how they recover undisturbed."""

PACES = {
    Kind.KILL_WORKER: Pace((8, 18)),
    Kind.KILL_MANAGER: Pace((12, 24), spell=SPELL),
    Kind.SUSPEND_WORKER: Pace((38, 50), (26, 34)),  # past the failover time and until another has taken over
    Kind.NETWORK: Pace((5, 10), (0.5, 4), spell=SPELL),
    Kind.RESHARD: Pace((12, 25)),
}
FEWEST_SHARDS, MOST_SHARDS = 3, 6
AT_WORK_WITHIN = 5 * NANOSECONDS // 2
"""A process that delivered a shard this recently most probably has its lease; its window may just have ended."""
ANY_PROCESS = 0.15
"""Of the kills: of any process, to hit some that have just begun, or are between two windows."""
TICK_TAKES = 0.25
"""Seconds after a prompt within which the lease manager is killed."""


@dataclass
class Troublemaker:
    """`faults` is what was done; planned faults that hit nothing are left out."""

    chaos: ChaosFleet
    planned: Sequence[Planned]
    faults: list[Fault] = field(default_factory=list)
    suspended: dict[int, list[Fault]] = field(default_factory=dict)
    """By process; includes those that are over."""
    _stopped: dict[int, float] = field(default_factory=dict)
    _next: int = 0

    def go_on(self, elapsed: float) -> None:
        """Does everything that is due `elapsed` seconds after the start."""
        for pid in [pid for pid, until in self._stopped.items() if until <= elapsed]:
            self._resume(pid)
        while self._next < len(self.planned) and self.planned[self._next].at <= elapsed:
            planned = self.planned[self._next]
            self._next += 1
            if fault := self._cause(planned, elapsed):
                self.faults.append(fault)

    def calm(self) -> None:
        """Ends current faults; no more follow."""
        self._next = len(self.planned)
        for pid in list(self._stopped):
            self._resume(pid)
        for each in self.chaos.networks:
            each.calm()
        self.chaos.fail_handlers(0)

    def _resume(self, pid: int) -> None:
        del self._stopped[pid]
        send(pid, signal.SIGCONT)

    def _cause(self, planned: Planned, elapsed: float) -> Fault | None:
        chance = Random(planned.chance)
        match planned.kind:
            case Kind.KILL_WORKER:
                return self._kill(chance)
            case Kind.SUSPEND_WORKER:
                return self._suspend(planned, elapsed, chance)
            case Kind.KILL_MANAGER:
                return self._kill_manager(chance)
            case Kind.NETWORK:
                return self._spoil_network(planned, chance)
            case Kind.RESHARD:
                return self._reshard(chance)

    def _at_work(self) -> dict[int, frozenset[str]]:
        """Running worker processes, by what they deliver. None that is just starting: when one of those ends,
        ministack ends all the others of its function, which start again and meet the same fate, for minutes."""
        journal = self.chaos.journal
        journal.read()
        working = journal.at_work(time.time_ns() - AT_WORK_WITHIN)
        started = journal.pids - self._stopped.keys()
        running = processes_of(self.chaos.aws, self.chaos.function("worker"))
        return {pid: frozenset(working.get(pid, ())) for pid in running if pid in started}

    def _kill(self, chance: Random) -> Fault | None:
        running = self._at_work()
        busy = [pid for pid in running if running[pid]]
        pool = sorted(running) if chance.random() < ANY_PROCESS or not busy else busy
        if not pool:
            return None
        pid, at = chance.choice(pool), time.time_ns()
        if not send(pid, signal.SIGKILL):
            return None
        return Fault(Kind.KILL_WORKER, at, at, running[pid], f"process {pid}")

    def _suspend(self, planned: Planned, elapsed: float, chance: Random) -> Fault | None:
        running = self._at_work()
        busy = [pid for pid in running if running[pid]]
        if not busy:
            return None
        pid, at = chance.choice(busy), time.time_ns()
        if not send(pid, signal.SIGSTOP):
            return None
        self._stopped[pid] = elapsed + planned.lasts
        until = at + int(planned.lasts * NANOSECONDS)
        fault = Fault(Kind.SUSPEND_WORKER, at, until, running[pid], f"process {pid} for {planned.lasts:.0f} s")
        self.suspended.setdefault(pid, []).append(fault)
        return fault

    def _kill_manager(self, chance: Random) -> Fault | None:
        """In the middle of a tick if possible, once it has started again since the last time."""
        last = max((fault.at for fault in self.faults if fault.kind is Kind.KILL_MANAGER), default=0)
        if not any(tick.began > last for tick in self.chaos.ticks):
            return None
        self.chaos.start_tick()
        time.sleep(chance.uniform(0, TICK_TAKES))
        killed = [
            pid for pid in processes_of(self.chaos.aws, self.chaos.function("manager")) if send(pid, signal.SIGKILL)
        ]
        at = time.time_ns()
        return Fault(Kind.KILL_MANAGER, at, at, frozenset(), f"processes {killed}") if killed else None

    def _spoil_network(self, planned: Planned, chance: Random) -> Fault:
        trouble = chance.choice(list(Trouble))
        which = chance.choice([self.chaos.networks[:1], self.chaos.networks[1:], self.chaos.networks])
        shards = frozenset[str]().union(*self._at_work().values())
        for each in which:
            each.burst(trouble, planned.lasts)
        at = time.time_ns()
        return Fault(Kind.NETWORK, at, at + int(planned.lasts * NANOSECONDS), shards, trouble)

    def _reshard(self, chance: Random) -> Fault:
        fleet, at = self.chaos.fleet, time.time_ns()
        widths = [_width(shard["HashKeyRange"]) for shard in fleet.open_shards()]
        if len(widths) <= FEWEST_SHARDS or (len(widths) < MOST_SHARDS and chance.random() < 0.5):
            fleet.split(widths.index(max(widths)))
            return Fault(Kind.RESHARD, at, at, frozenset(), "split")
        pairs = [sum(widths[n : n + 2]) for n in range(len(widths) - 1)]
        fleet.merge(pairs.index(min(pairs)))
        return Fault(Kind.RESHARD, at, at, frozenset(), "merge")


def _width(hash_keys: dict[str, str]) -> int:
    return int(hash_keys["EndingHashKey"]) - int(hash_keys["StartingHashKey"])
