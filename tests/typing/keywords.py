"""What type checkers make of settings that are given by name. Nothing runs: mypy reads it, and refuses an `ignore` that
is no longer needed, so that each line with one has to stay an error.
"""

from __future__ import annotations

from datetime import timedelta

from sublet import Batch, Consumer, Context, Event, EventKind, FleetStatus, LeaseTableNotFound, Mode
from sublet import aio as on_a_loop
from sublet.testing import MemoryConsumer, consume, simulate


def handle(batch: Batch) -> None: ...


def told(event: Event) -> None:
    assert event.kind is EventKind.DISCONNECTED


def right(context: Context) -> FleetStatus:
    """As it runs."""
    Consumer("audit", "orders", batch_size=3, failover_time=timedelta(seconds=10), mode=Mode.CONTINUOUS)
    Consumer("audit", "orders", handle, failover_time="10s", mode="continuous", start_position="LATEST")
    Consumer("audit", "orders", ack_wait=60, on_event=told, until_signalled=True)
    on_a_loop.Consumer("audit", "orders", ack_wait=0.5, handler_timeout=None)
    context.consumer("orders", "audit", handler=handle, max_ack_pending=5, worker_id="me")
    context.stream("orders").create_consumer("audit", ack_wait=timedelta(minutes=1), on_failure=None)
    consume(handle, [b"1"], handler_contract="batch", worker_count=2)
    MemoryConsumer(shards=3, application="audit").consume(handle, handler_contract="lambda_event")
    simulate(handle, 3, handler_contract="lambda_event")
    try:
        return Consumer("audit", "orders").info()
    except LeaseTableNotFound as missing:
        raise SystemExit(str(missing)) from missing


def wrong(context: Context) -> None:
    Consumer("audit", "orders", batchsize=3)  # type: ignore[call-arg]
    Consumer("audit", "orders", failover_time=10)  # type: ignore[arg-type]
    Consumer("audit", "orders", mode="continous")  # type: ignore[arg-type]
    Consumer("audit", "orders", batch_size="3")  # type: ignore[arg-type]
    Consumer("audit", "orders", worker_count=3)  # type: ignore[call-arg]
    Consumer("audit", "orders", ack_wait="1m")  # type: ignore[arg-type]
    on_a_loop.Consumer("audit", "orders", failover_time=10)  # type: ignore[arg-type]
    on_a_loop.Consumer("audit", "orders", handler=handle)  # type: ignore[call-arg]
    context.consumer("orders", "audit", batchsize=3)  # type: ignore[call-arg]
    context.stream("orders").create_consumer("audit", failover_time=10)  # type: ignore[arg-type]
    consume(handle, [b"1"], handler_atempts=1)  # type: ignore[call-arg]
    MemoryConsumer(shard=3)  # type: ignore[call-arg]
    simulate(handle, 3, batchsize=3)  # type: ignore[call-arg]
