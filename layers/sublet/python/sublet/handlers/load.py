"""The user's handler, from `module:function` to the Handler port."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from sublet.errors import HandlerNotLoadable
from sublet.ports import Batch
from sublet.protocol.checkpoint import Checkpoint


def _nothing(*_: object) -> None:
    """Stands in for an optional function that the handler's module does not define."""


@dataclass(frozen=True, slots=True)
class HandlerFunctions:
    """A handler made of module-level functions; only `handle` is required."""

    handle_batch: Callable[[Batch], object]
    on_lease_acquired: Callable[[str, Checkpoint], object] = _nothing
    on_lease_lost: Callable[[str], object] = _nothing
    on_shard_ended: Callable[[str], object] = _nothing

    def handle(self, batch: Batch) -> None:
        self.handle_batch(batch)

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint) -> None:
        self.on_lease_acquired(shard_id, checkpoint)

    def lease_lost(self, shard_id: str) -> None:
        self.on_lease_lost(shard_id)

    def shard_ended(self, shard_id: str) -> None:
        self.on_shard_ended(shard_id)


def load_handler(reference: str) -> HandlerFunctions:
    """Import `module:function`; `lease_acquired`, `lease_lost` and `shard_ended` of the same module are called if they are there.

    Raises HandlerNotLoadable, in one sentence that says which part of the reference is wrong.
    """
    module_name, _, function_name = reference.partition(":")
    if not module_name or not function_name:
        raise HandlerNotLoadable(
            f"handler {reference!r} is not of the form module:function, such as orders.handler:handle"
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name and (module_name == missing.name or module_name.startswith(f"{missing.name}.")):
            raise HandlerNotLoadable(
                f"handler {reference!r}: there is no module {missing.name} on the Python path"
            ) from missing
        raise HandlerNotLoadable(
            f"handler {reference!r}: {module_name} imports {missing.name}, which is not installed"
        ) from missing
    except (Exception, SystemExit) as failure:
        raise HandlerNotLoadable(
            f"handler {reference!r}: importing {module_name} raised {type(failure).__name__}: {failure}"
        ) from failure
    return HandlerFunctions(
        _function(module, function_name, reference),
        **{f"on_{name}": _function(module, name, reference) for name in _OPTIONAL if hasattr(module, name)},
    )


_OPTIONAL = ("lease_acquired", "lease_lost", "shard_ended")


def _function(module: ModuleType, name: str, reference: str) -> Callable[..., object]:
    function = getattr(module, name, None)
    if function is None:
        raise HandlerNotLoadable(f"handler {reference!r}: module {module.__name__} has no function {name}")
    if not callable(function):
        raise HandlerNotLoadable(
            f"handler {reference!r}: {module.__name__}.{name} is a {type(function).__name__}, not a function"
        )
    if any(is_lazy(function) for is_lazy in _LAZY):
        raise HandlerNotLoadable(
            f"handler {reference!r}: {module.__name__}.{name} is async or a generator: calling it runs nothing of it, "
            "and its records would count as done; make it a plain function"
        )
    return function  # type: ignore[no-any-return]


_LAZY = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
