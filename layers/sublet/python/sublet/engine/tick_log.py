"""What a lease manager says of itself, as KCL does: a line when it starts, and one for each tick that takes leases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import asdict

from sublet.decisions.choose_leases import Choice, ClaimReason, Standing
from sublet.ports import Log
from sublet.settings import Settings, duration_text


def log_start(log: Log, settings: Settings, tick_interval: timedelta | None = None) -> None:
    """The intervals and limits that it goes by. On Lambda a schedule ticks, which it does not know."""
    ticks = {} if tick_interval is None else {"tick_interval": duration_text(tick_interval)}
    log.info(
        "lease manager starts",
        mode=settings.mode.value,
        worker_ids=settings.own_worker_ids,
        **ticks,
        failover_time=duration_text(settings.failover_time),
        heartbeat_interval=duration_text(settings.heartbeat_interval),
        fair_share=settings.fair_share,
        balance=settings.balance.value,
        max_leases_for_worker=settings.max_leases_for_worker,
        leases_to_acquire=settings.leases_to_acquire,
        max_leases_to_steal_at_one_time=settings.max_leases_to_steal_at_one_time if settings.steals else 0,
    )


def log_tick(log: Log, standing: Standing, choices: Sequence[Choice]) -> None:
    """If it takes anything: how it found the fleet, and its target; then each lease, and why."""
    if not choices:
        return
    stolen = sum(choice.why is ClaimReason.STEAL for choice in choices)
    log.info("leases chosen", **asdict(standing), chosen=len(choices), stolen=stolen)
    for choice in choices:
        log.info("lease chosen", lease_key=choice.lease.lease_key, worker_id=choice.worker_id, why=choice.why)
