"""Tests of a handler: the engine in memory, on a clock that the test controls. Needs no AWS, no Docker and no waiting.

consume         the whole engine on records in memory, until all are handled
MemoryConsumer  the same, step by step: put, reshard, consume again
simulate        a handler in many worlds of crashes, pauses and reshards
batch           one Batch to call a handler with; `checkpointed` returns what it checkpointed
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublet.testing.batches import batch, checkpointed
    from sublet.testing.memory_consumer import Consumed, MemoryConsumer, consume
    from sublet.testing.simulation.deliveries import (
        Delivery,
        SimulatedRun,
        Simulation,
        SimulationFailed,
        simulate,
    )

__all__ = [
    "Consumed",
    "Delivery",
    "MemoryConsumer",
    "SimulatedRun",
    "Simulation",
    "SimulationFailed",
    "batch",
    "checkpointed",
    "consume",
    "simulate",
]

_NAMES = {
    "sublet.testing.batches": "batch checkpointed",
    "sublet.testing.memory_consumer": "Consumed MemoryConsumer consume",
    "sublet.testing.simulation.deliveries": "Delivery SimulatedRun Simulation SimulationFailed simulate",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Loads a name at its first use (PEP 562): pytest loads this package in every session, even if it is not
        used.
        """
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
