"""Checks whether a function can be a handler: its signature before the first call, and what each call returns.

A handler that only looks like one is worse than one that fails: calling a generator function runs none of it, and its
records would count as done.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncContextDecorator, ContextDecorator, suppress
from functools import partial

from sublet.errors import HandlerContractBroken
from sublet.handlers.item_failures import FAILURES

CONTRACT = {
    "handle": ("batch",),
    "lease_acquired": ("shard_id", "checkpoint"),
    "lease_releasing": ("shard_id",),
    "lease_lost": ("shard_id",),
    "shard_ended": ("shard_id",),
}
"""The user's functions under our own contract, with their arguments. Only the first is required."""

WITH_PENDING = (*CONTRACT["lease_acquired"], "pending")
"""The arguments of lease_acquired if it takes three: the last is the pending checkpoint of a two-phase checkpoint."""

_LAZY = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def misfit(function: object, called_with: Sequence[str], *, is_awaited: bool = True) -> str | None:
    """Why the function cannot be called with these arguments, to be put after its name; None if it can. `is_awaited`:
    whether the caller waits for an awaitable that it returns.

    Looks at a decorator's result, not at the function it wraps: a decorator that collects a generator's results makes
    it a plain function.
    """
    if not callable(function):
        return f"is of type {type(function).__name__}, not a function"
    if isinstance(function, type):
        return "is a class: calling it makes an instance and handles nothing; name a function, or an instance's method"
    if any(is_lazy(_called(function)) for is_lazy in _LAZY):
        return (
            "is a generator: calling it runs none of its code, and its records would count as done; "
            "make it a plain function, or async def without yield"
        )
    if not is_awaited and is_async(function):
        return "is async, but the caller does not await it: use sublet.aio, or make it a plain function"
    return _wrong_arguments(function, called_with)


def finished(returned: object) -> object:
    """The result of a user's call once its work is done: waits for an awaitable, on the process' event loop.

    Raises HandlerContractBroken if the result stands for work that is still undone, such as a coroutine that an async
    def returned because of a missing `await`.
    """
    if inspect.isawaitable(returned):
        from sublet.handlers.event_loop import LOOP  # noqa: PLC0415 - asyncio, which only coroutines need

        returned = LOOP.result_of(returned)
    check_ran(returned)
    return returned


def check_ran(returned: object) -> None:
    """Raise HandlerContractBroken if the call's work is not done: what it returned, or something in the list, tuple,
    set or dict that it returned, still has to run.
    """
    within = _values(returned)
    undone = [value for value in (returned, *within) if _left_undone(value)]
    if not undone:
        return
    for value in undone:
        if isinstance(value, Coroutine | Generator):
            value.close()  # or Python warns that it was never awaited
    container = f" in {_a(returned)}" if undone[0] is not returned else ""
    raise HandlerContractBroken(f"the handler returned {_a(undone[0])}{container}, {_left_undone(undone[0])}")


def _values(returned: object) -> Iterable[object]:
    """The values in a container, one level deep."""
    if isinstance(returned, Mapping):
        return tuple(returned.values())
    return tuple(returned) if isinstance(returned, list | tuple | set | frozenset) else ()


def _left_undone(value: object) -> str | None:
    """What to do instead of returning it; None if it stands for no pending work."""
    if inspect.isasyncgen(value) or isinstance(value, Iterator):
        return "none of which has run: use a loop instead of yield or map"
    if inspect.isawaitable(value) or isinstance(value, Future):
        return "whose work is not finished: await it, or call its result(), before you return"
    if _is_pools(value):
        return "whose work is not finished: call its get() before you return"
    if _is_generator_context(value):
        return "none of which has run: remove @contextmanager, or enter it with `with` before you return"
    return None


def _is_pools(value: object) -> bool:
    """A result of multiprocessing's pools, which nothing here imports."""
    pools = sys.modules.get("multiprocessing.pool")
    return pools is not None and isinstance(value, pools.AsyncResult)


def _is_generator_context(value: object) -> bool:
    """The result of a function under @contextmanager or @asynccontextmanager: it keeps the generator, not begun, as
    `gen`.
    """
    generator = getattr(value, "gen", None) if isinstance(value, ContextDecorator | AsyncContextDecorator) else None
    return inspect.isgenerator(generator) or inspect.isasyncgen(generator)


def check_returned(returned: object) -> None:
    """Raise HandlerContractBroken if the result reports progress by another contract. Any other result except None is
    ignored, with a warning once; never with an error, even if the user's filters turn warnings into errors, since the
    batch has been handled.
    """
    if returned is None:
        return
    if isinstance(returned, Mapping) and FAILURES in returned:
        raise HandlerContractBroken(
            f"the handler returned {FAILURES}, which is the contract of Lambda's event source mapping: "
            "call batch.checkpoint(record) for what is done, then raise for what is not, or take (event, context) and "
            "set handler_contract=lambda_event"
        )
    with suppress(UserWarning):
        warnings.warn(
            f"the handler returned {_a(returned)}, which is ignored: a call that returns has handled its whole batch",
            stacklevel=2,
        )


def is_async(function: Callable[..., object]) -> bool:
    """Whether a call makes a coroutine: for a function, a partial of one, or an object's `__call__`."""
    return inspect.iscoroutinefunction(_called(function))


def _called(function: Callable[..., object]) -> object:
    """What runs when it is called: looks through partial, and at an object's `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else function.__call__  # type: ignore[operator] # `callable` says that it has one


def _wrong_arguments(function: Callable[..., object], called_with: Sequence[str]) -> str | None:
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # a function written in C may have no signature
        return None
    try:
        signature.bind(*called_with)
    except TypeError:
        by_position = ", by position" if "*" in _parameters(signature) else ""
        return f"takes {_parameters(signature)}, but is called with ({', '.join(called_with)}){by_position}"
    return None


def _parameters(signature: inspect.Signature) -> str:
    """The names of the parameters; after a star, the keyword-only ones."""
    bare = [p.replace(annotation=p.empty, default=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))


def _a(value: object) -> str:
    """Names only the value's type: the value may hold a record's data."""
    return f"a value of type {type(value).__name__}"
