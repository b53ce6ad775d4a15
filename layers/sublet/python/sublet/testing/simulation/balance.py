"""Checks that leases are shared evenly and stay in place once the faults have stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sublet.testing.simulation.scheduler import MICROSECOND, SECOND
from sublet.testing.simulation.world import World


class Neighbours(Protocol):
    """A fleet of others on the same lease table."""

    @property
    def version(self) -> int:
        """The KCL version, which decides how its leases are balanced."""

    def start(self, world: World) -> None: ...


@dataclass(frozen=True, slots=True)
class SharedOut:
    world: World
    tick_interval: int
    neighbours: Neighbours | None
    complain: Callable[[str], None]

    def check(self) -> None:
        """Continuous mode: allow time to balance at the pace of stealing; then all leases must be held evenly and stay
        in place.

        Beside Java they do not quite stay. An ending execution releases its leases, and the next one takes them a
        second later; a KCL 2.x worker that scans in between finds us gone, and its fair share larger. So a mixed fleet
        must be balanced at some moment of the period, and our fleet alone must be at its end.
        """
        world, settings = self.world, self.world.settings
        execution = settings.windows_per_execution * settings.window // MICROSECOND
        round_ = max(self.tick_interval, 2 * settings.failover_time // MICROSECOND)
        world.scheduler.run_until(world.scheduler.now_us + execution + (len(self._in_play()) + 4) * round_)
        settled = world.scheduler.now_us
        world.note("end", "has had time to balance")
        unbalanced = self._unbalanced()
        while world.scheduler.now_us < settled + execution + 4 * self.tick_interval and not world.scheduler.is_stopped:
            world.scheduler.run_until(world.scheduler.now_us + 10 * SECOND)
            unbalanced = self._unbalanced() if self.neighbours is None else unbalanced and self._unbalanced()
        if unbalanced and self._shares_fairly():
            self.complain(f"not balanced: {unbalanced}")
        moves = [move for key in self._in_play() for at, move in world.watch.tenancies[key].moves if at > settled]
        if moves and self.neighbours is None:
            self.complain(f"still moving: {moves[:3]}")

    def _in_play(self) -> list[str]:
        return [lease.lease_key for lease in self.world.table.scan().leases if not lease.is_ended]

    def _shares_fairly(self) -> bool:
        """True if even shares are promised. A KCL 3.x leader balances by other measures; fair share or stealing may be
        off.
        """
        if self.neighbours is None:
            return self.world.settings.fair_share
        return self.world.settings.fair_share and self.neighbours.version == 2 and self.world.settings.steals

    def _unbalanced(self) -> str | None:
        """Returns the leases per owner if not all leases are held, or if owners differ by more than one lease;
        otherwise None.

        Our own worker ids count as one pool, since they level out from execution to execution. Java counts ended leases
        until they are cleaned up, which takes a record in each child: such a table is exempt.
        """
        world, own = self.world, self.world.settings.own_worker_ids
        rows = world.table.scan().leases
        if any(lease.is_ended and lease.lease_owner for lease in rows):
            return None
        keys = [lease.lease_key for lease in rows if not lease.is_ended]
        owners = Counter(owner for key in keys if (owner := world.watch.tenancies[key].owner_id) is not None)
        ours = sum(owners[worker_id] for worker_id in own)
        live = [process.name for process in world.java.values() if not process.is_dead]
        loads = [owners[worker_id] for worker_id in live] + [ours // len(own), -(-ours // len(own))]
        if ours + sum(owners[worker_id] for worker_id in live) == len(keys) and max(loads) - min(loads) <= 1:
            return None
        return f"{dict(owners)} of {len(keys)} leases; live: {live}"
