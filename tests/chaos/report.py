"""The report for a person, on a terminal or in a file, and whether every promise was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tests.chaos.fleet import FAILOVER_SECONDS, NOTICED_WITHIN, TICK_SECONDS
from tests.chaos.plan import Kind
from tests.chaos.recovery import Recovery
from tests.chaos.run import Found

CRASH_GOAL = 5.0
"""Seconds: the median if Step Functions sees the crash, and nothing else hits the restarted worker."""

START_SECONDS = 10.0
"""For the new worker to start and poll: two on an idle machine, several on a busy one."""

BOUND = NOTICED_WITHIN + START_SECONDS
"""The longest recovery in seconds, if nothing else hits it in between."""

SUBSCRIBE_SECONDS = 12.0
"""More of it with fan-out: Kinesis refuses another subscription for five seconds, and calls that fail in a row wait
longer and longer."""

EXAMPLES = 10
SHOWN_KINDS = {
    Kind.KILL_WORKER: "all its shards deliver again",
    Kind.SUSPEND_WORKER: "all its shards deliver again",
    Kind.KILL_MANAGER: "a later tick comes through",
    Kind.NETWORK: "good again: all shards deliver",
}


def problems(found: Found) -> list[str]:
    """Broken promises; empty if all is well."""
    verdict = found.verdict
    return [
        *(f"missing: {text}" for text in verdict.missing),
        *(f"out of order: {text}" for text in verdict.out_of_order),
        *(f"out of order: {wrong}" for wrong in verdict.broken_tenures),
        *(f"further back than the checkpoint: {wrong}" for wrong in verdict.too_far_back),
        *(f"lease table: {wrong}" for wrong in found.wrong),
        *(_too_late(recovery, bound(found)) for recovery in found.recoveries if is_too_late(recovery, bound(found))),
    ]


def bound(found: Found) -> float:
    return BOUND + (SUBSCRIBE_SECONDS if found.subscriptions else 0)


def is_too_late(recovery: Recovery, longest: float) -> bool:
    return recovery.undisturbed is None or recovery.undisturbed > longest


def draw_report(found: Found) -> RenderableType:
    wrong = problems(found)
    pace = f"failover time {FAILOVER_SECONDS:g} s, a tick every {TICK_SECONDS:g} s"
    parts: list[RenderableType] = [
        f"Chaos: seed {found.seed}, {found.seconds / 60:g} minutes; {pace}",
        _events(found),
        _times(found.recoveries),
        Text(f"Bound: {_bound_text(found)} = {bound(found):g} s"),
        Text(crash_goal(found.recoveries)),
        *(Text(line) for line in wrong[:EXAMPLES]),
    ]
    if len(wrong) > EXAMPLES:
        parts.append(Text(f"... and {len(wrong) - EXAMPLES:,} more"))
    parts.append(
        Text("Something is wrong", style="bold red") if wrong else Text("All promises kept", style="bold green")
    )
    return Group(*parts)


def _bound_text(found: Found) -> str:
    text = f"{NOTICED_WITHIN:g} s for ticks to notice + {START_SECONDS:g} s for a start"
    return f"{text} + {SUBSCRIBE_SECONDS:g} s to subscribe" if found.subscriptions else text


def _events(found: Found) -> Table:
    table = Table(box=SIMPLE_HEAD, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column()
    for number, what in _figures(found):
        table.add_row(number, what)
    return table


def _figures(found: Found) -> Iterator[tuple[str, str]]:
    verdict = found.verdict
    yield (
        f"{verdict.put:,}",
        f"events, {verdict.handled:,} of them handled, in {verdict.calls:,} calls of the handler",
    )
    yield f"{len(verdict.missing):,}", "missing"
    yield f"{verdict.order_violations:,}", "order violations"
    yield f"{verdict.redelivered_share:.2%}", f"redelivered: {verdict.again:,} were done once more"
    yield (
        f"{verdict.failed_calls:,}",
        f"handler failures, which left {verdict.unfinished:,} shown records undone",
    )
    yield f"{sum(found.faults.values()):,}", f"faults: {_counts(found.faults)}"
    yield f"{sum(found.reshards.values()):,}", f"reshards: {_counts(found.reshards)}"
    yield f"{sum(found.hit.values()):,}", f"of {found.requests:,} requests hit: {_counts(found.hit)}"
    if found.subscriptions:
        yield f"{found.subscriptions:,}", "subscriptions"
    yield f"{found.ticks:,}", f"ticks came through, {found.failed_ticks} did not"
    yield (
        f"{found.taken:,}",
        f"leases taken by another worker item; {found.moves:,} moved to another worker id",
    )
    yield f"{sum(found.refused.values()):,}", f"conditional writes that lost: {_counts(found.refused)}"
    yield f"{len(found.wrong):,}", "broken rules of the lease table"


def _times(recoveries: Sequence[Recovery]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("seconds until")
    for column in ("n", "median", "p90", "max", "undisturbed n", "median", "max"):
        table.add_column(column, justify="right")
    for kind, what in SHOWN_KINDS.items():
        of_kind = [recovery for recovery in recoveries if recovery.fault.kind is kind]
        table.add_row(f"{kind}: {what}", *_distribution(of_kind))
    return table


def _distribution(recoveries: Sequence[Recovery]) -> list[str]:
    """Of all recoveries, then of those that nothing else hit in between."""
    alone = [recovery for recovery in recoveries if recovery.is_undisturbed]
    count, *figures = _summary(recoveries)
    alone_count, alone_median, _, alone_max = _summary(alone)
    return [count, *figures, alone_count, alone_median, alone_max]


def _summary(recoveries: Sequence[Recovery]) -> list[str]:
    """Number, median, p90, max."""
    seconds = sorted(inf if recovery.seconds is None else recovery.seconds for recovery in recoveries)
    if not seconds:
        return ["0", "-", "-", "-"]
    figures = (median(seconds), seconds[int(len(seconds) * 0.9)], seconds[-1])
    return [str(len(seconds)), *("never" if figure == inf else f"{figure:.1f}" for figure in figures)]


def crash_goal(recoveries: Sequence[Recovery]) -> str:
    """A goal, not a promise: how fast a worker starts depends on the machine."""
    kills = (recovery for recovery in recoveries if recovery.fault.kind is Kind.KILL_WORKER)
    seconds = [kill.seconds for kill in kills if kill.seconds is not None and kill.is_undisturbed]
    goal = f"Goal: a median below {CRASH_GOAL:g} s for workers killed and otherwise undisturbed"
    if not seconds:
        return f"{goal}: there were none"
    return f"{goal}: {median(seconds):.1f} s, {'met' if median(seconds) < CRASH_GOAL else 'missed'}"


def _too_late(recovery: Recovery, longest: float) -> str:
    fault = recovery.fault
    took = "was never recovered from" if recovery.seconds is None else f"took {recovery.seconds:.1f} s"
    shards = ", ".join(sorted(fault.shards))
    undisturbed = "" if recovery.undisturbed is None else f", {recovery.undisturbed:.1f} s undisturbed"
    return f"{fault.kind} ({fault.what}; {shards}) {took}{undisturbed}; the bound is {longest:g} s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or "none"
