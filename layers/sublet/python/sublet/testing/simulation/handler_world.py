"""One seed's world around a user's handler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any

from sublet.errors import HandlerNotLoadable
from sublet.handler import Handler
from sublet.handlers.load import handler_of
from sublet.settings import HandlerContract, StartKind, StartPosition
from sublet.testing.batches import STREAM, arn_of
from sublet.testing.simulation.deliveries import Delivery, SimulatedRun, SimulationFailed
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.handler_crashes import HandlerCrashes
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import SECOND, Process
from sublet.testing.simulation.user_handler import Calls, SimulatedCall, SimulatedHandler
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

BY_HAND = frozenset((Fault.ROW_DELETED, Fault.ROW_GONE_BAD, Fault.CHECKPOINT_MOVED))
"""Faults that are left out, because an operator's changes to lease rows do not test a handler."""

FROM_THE_START = StartPosition(StartKind.TRIM_HORIZON)


def play_handler(
    handler: object,
    seed: int,
    data: Callable[[int], bytes],
    settings: Mapping[str, Any],
    *,
    is_recorded: bool,
) -> SimulatedRun:
    """Raises SimulationFailed if the world does not end well."""
    calls, numbers = Calls(), count()
    result = play(
        seed,
        is_recorded=is_recorded,
        wiring=Wiring(handler=partial(_wired, handler, calls, HandlerCrashes(seed))),
        without=BY_HAND,
        data=lambda *_: data(next(numbers)),
        **{"start_position": FROM_THE_START, "stream_arn": arn_of(STREAM), **settings},
    )
    _check_end(result, calls)
    return SimulatedRun(seed, result.records, tuple(_deliveries(calls.made)), result.faults, result.history)


def _wired(handler: object, calls: Calls, crashes: HandlerCrashes, world: World, process: Process) -> Handler:
    """A class is instantiated for the process; a record processor for each lease, by its contract."""
    is_made_by_contract = world.settings.handler_contract is HandlerContract.RECORD_PROCESSOR
    own = handler() if isinstance(handler, type) and not is_made_by_contract else handler
    try:
        return SimulatedHandler(world, process, handler_of(own, world.settings), calls, crashes)
    except HandlerNotLoadable as refused:
        calls.failures.append(refused)
        world.fail(str(refused))
        raise


def _check_end(result: Result, calls: Calls) -> None:
    if calls.failures and isinstance(calls.failures[-1], HandlerNotLoadable):
        raise calls.failures[-1]
    if result.violation is not None:
        said = f"seed {result.seed}: {result.violation}; its history: simulate(handler, seeds=[{result.seed}])"
        end = "\n".join(result.history[-40:])
        raise SimulationFailed(f"{said}\n{end}".strip()) from (calls.failures[-1] if calls.failures else None)


def _deliveries(calls: Iterable[SimulatedCall]) -> Iterable[Delivery]:
    for call in calls:
        for place, record in enumerate(call.records):
            yield Delivery(call.at_us / SECOND, call.worker, call.shard_id, record, place < call.finished)
