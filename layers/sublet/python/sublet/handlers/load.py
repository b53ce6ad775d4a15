"""The user's handler, however it is given, as the Handler port."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from sublet.errors import HandlerNotLoadable
from sublet.handler import Batch
from sublet.handlers.contract import CONTRACT, check_returned, misfit
from sublet.protocol.checkpoint import Checkpoint


def _nothing(*_: object) -> None:
    """Stands in for an optional function that the user has not written."""


@dataclass(frozen=True, slots=True)
class HandlerFunctions:
    """A handler made of plain functions; only the first is required. A call that did not run raises HandlerContractBroken."""

    handle_batch: Callable[[Batch], object]
    on_lease_acquired: Callable[[str, Checkpoint], object] = _nothing
    on_lease_releasing: Callable[[str], object] = _nothing
    on_lease_lost: Callable[[str], object] = _nothing
    on_shard_ended: Callable[[str], object] = _nothing

    def handle(self, batch: Batch) -> None:
        check_returned(self.handle_batch(batch))

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint) -> None:
        check_returned(self.on_lease_acquired(shard_id, checkpoint))

    def lease_releasing(self, shard_id: str) -> None:
        check_returned(self.on_lease_releasing(shard_id))

    def lease_lost(self, shard_id: str) -> None:
        check_returned(self.on_lease_lost(shard_id))

    def shard_ended(self, shard_id: str) -> None:
        check_returned(self.on_shard_ended(shard_id))


OPTIONAL = tuple(role for role in CONTRACT if role != "handle")


def handler_of(handler: object) -> HandlerFunctions:
    """A handler of what the user has: a function, an object or module with a function `handle`, or `module:function`.

    The optional functions are those of the object, or of the module that is named. Raises HandlerNotLoadable.
    """
    if isinstance(handler, str):
        return load_handler(handler)
    name = getattr(handler, "__qualname__", None) or getattr(handler, "__name__", type(handler).__name__)
    if _has_handle(handler):
        return _functions(handler, "handle", f"handler {name}: {name}")
    if callable(handler):
        return HandlerFunctions(_checked(handler, "handle", f"handler {name}: it"))
    raise HandlerNotLoadable(f"handler {name} is neither a function nor has it a function handle")


def load_handler(reference: str) -> HandlerFunctions:
    """Import `module:function` or `module:object`; the optional functions are the module's, or the object's.

    Raises HandlerNotLoadable, in one sentence that says which part of the reference is wrong.
    """
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise HandlerNotLoadable(
            f"handler {reference!r} is not of the form module:function, such as orders.handler:handle"
        )
    module = _imported(module_name, reference)
    if not hasattr(module, name):
        raise HandlerNotLoadable(f"handler {reference!r}: module {module_name} has no function {name}")
    named = getattr(module, name)
    if _has_handle(named):
        return _functions(named, "handle", f"handler {reference!r}: {module_name}.{name}")
    return _functions(module, name, f"handler {reference!r}: {module_name}")


def _imported(module_name: str, reference: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
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


def _has_handle(value: object) -> bool:
    """An object or a module, and not a class: its functions would lack their `self`."""
    return callable(getattr(value, "handle", None)) and not isinstance(value, type)


def _functions(owner: object, function_name: str, said: str) -> HandlerFunctions:
    """`said`: how a refusal begins, before the function's name."""
    return HandlerFunctions(
        _checked(getattr(owner, function_name), "handle", f"{said}.{function_name}"),
        **{
            f"on_{role}": _checked(getattr(owner, role), role, f"{said}.{role}")
            for role in OPTIONAL
            if hasattr(owner, role)
        },
    )


def _checked(function: object, role: str, said: str) -> Callable[..., object]:
    problem = misfit(function, role)
    if problem is not None or not callable(function):
        raise HandlerNotLoadable(f"{said} {problem}")
    return function
