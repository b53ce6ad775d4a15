"""Draws the settings of a seed's world."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from sublet.settings import Balance, Mode, Settings, StartKind, StartPosition
from sublet.testing.memory.clock import BEGINNING


def draw_settings(chance: Random) -> Settings:
    """Small windows and a short failover, so that as much as possible happens at once."""
    kind = chance.choice((StartKind.TRIM_HORIZON,) * 4 + (StartKind.LATEST,) + (StartKind.AT_TIMESTAMP,) * 2)
    soon = timedelta(seconds=chance.choice((60, 240)) * chance.random())
    at = BEGINNING + soon if kind is StartKind.AT_TIMESTAMP else None
    return Settings(
        application="simulated",
        stream="memory",
        mode=chance.choice((Mode.CATCH_UP, Mode.CONTINUOUS)),
        start_position=StartPosition(kind, at),
        failover_time=timedelta(seconds=30),
        heartbeat_interval=timedelta(seconds=10),
        worker_count=chance.choice((1, 2, 2, 3)),
        leases_per_worker=chance.choice((1, 2, 3, 10)),
        max_leases_to_steal_at_one_time=chance.choice((0, 1, 2)),
        fair_share=chance.random() < 0.8,
        window=timedelta(seconds=chance.choice((40, 80, 160))),
        window_margin=timedelta(seconds=10),
        windows_per_execution=chance.choice((1, 2, 4)),
        linger=timedelta(seconds=chance.choice((0, 2, 5))),
        poll_interval=timedelta(seconds=chance.choice((0.2, 1))),
        idle_poll_interval=timedelta(seconds=chance.choice((2, 5))),
        poll_limit=chance.choice((2, 5, 20, 1000)),
        batch_size=chance.choice((1, 2, 5, 1000)),
        checkpoint_interval=timedelta(seconds=chance.choice((0, 1, 10))),
        handover_wait=timedelta(seconds=chance.choice((0, 5))),
        handler_attempts=chance.choice((1, 2, 4)),
        handler_backoff=timedelta(seconds=1),
        handler_concurrency=chance.choice((1, 1, 3)),
        handler_timeout=chance.choice((None, None, timedelta(seconds=15), timedelta(seconds=45))),
        balance=chance.choice(tuple(Balance)),
        quiet_visit_interval=timedelta(seconds=chance.choice((0, 90, 3600, 3600))),
    )
