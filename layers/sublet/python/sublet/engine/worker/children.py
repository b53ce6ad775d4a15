"""Starts the children of shards that end in a window, and those that a crashed attempt at the same item had begun."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sublet.decisions.session.control import pause_of
from sublet.decisions.session.shard_end import may_begin
from sublet.decisions.session.window import LeaseReport
from sublet.engine.control_watch import ControlWatch
from sublet.engine.worker.acquire import LeaseAcquirer
from sublet.errors import CallFailed
from sublet.ports import Ports
from sublet.protocol.lease import Lease, lease_key_of
from sublet.protocol.shard import Shard, children_by_parent


class ChildLeases:
    """`start` begins with a lease. It returns False if there was no room."""

    def __init__(
        self, ports: Ports, acquirer: LeaseAcquirer, watch: ControlWatch, start: Callable[[Lease], bool]
    ) -> None:
        self._ports, self._table, self._log = ports, ports.table, ports.log
        self._acquirer = acquirer
        self._watch = watch
        self._start = start

    def of_vanished(self, report: LeaseReport) -> LeaseReport:
        """The lease's row is gone. An earlier attempt at this item may have ended the shard, begun its children, and
        crashed. Once children are being read, the parent's row is cleaned up, and only the listing of shards names
        them.
        """
        from sublet.reading.several_streams import ports_of_stream  # noqa: PLC0415 - would add to every start

        try:
            shards = ports_of_stream(self._ports, report.lease_key).stream.list_shards()
            unstarted = self._take_over_below(report.lease_key, shards)
            return replace(report, unstarted_children=unstarted)
        except CallFailed as unavailable:
            self._log.warning("could not check for child shards", lease_key=report.lease_key, problem=str(unavailable))
            return report

    def _take_over_below(self, parent: str, shards: Sequence[Shard]) -> int:
        """Take over the children that this item held, and those below children whose rows are gone. A tick starts free
        ones.

        The rows of thousands of generations may be gone, so this is a loop.
        """
        children = {of: sorted(ids, reverse=True) for of, ids in children_by_parent(shards).items()}
        unstarted, left, seen = 0, [*children.get(parent, ())], set[str]()
        while left:
            if (shard_id := left.pop()) in seen:
                continue
            seen.add(shard_id)
            child = self._table.get(lease_key_of(shard_id))
            if child is None:
                left += children.get(shard_id, ())
            elif isinstance(child, Lease) and child.is_ended:
                unstarted += self._start_children(child)
            elif isinstance(child, Lease) and self._acquirer.is_of_this_item(child):
                unstarted += not self._start(child)
        return unstarted

    def of_ended(self, report: LeaseReport, parent: Lease) -> LeaseReport:
        """Start the children that may begin, if there are room and time. The rest is for the next tick."""
        try:
            return replace(report, unstarted_children=self._start_children(parent))
        except CallFailed as unavailable:
            self._log.warning("lease table unavailable", lease_key=parent.lease_key, problem=str(unavailable))
            return replace(report, unstarted_children=len(parent.child_shard_ids))

    def _start_children(self, parent: Lease) -> int:
        """How many could begin if there were room. If an earlier attempt at this item ended a child, its children are
        started.
        """
        unstarted, left, seen = 0, sorted(parent.child_shard_ids, reverse=True), set[str]()
        while left:
            if (shard_id := left.pop()) in seen:
                continue
            seen.add(shard_id)
            child = self._table.get(lease_key_of(shard_id))
            if isinstance(child, Lease) and child.is_ended:
                left += sorted(child.child_shard_ids, reverse=True)
            elif isinstance(child, Lease) and self._may_begin(child):
                unstarted += not self._start(child)
        return unstarted

    def _may_begin(self, child: Lease) -> bool:
        if child.lease_owner is not None and not self._acquirer.is_of_this_item(child):
            return False
        if pause_of(self._watch.known, child.lease_key, self._watch.now) is not None:
            return False
        return may_begin(
            child,
            [self._table.get(lease_key_of(parent)) for parent in sorted(child.parent_shard_ids)],
        )
