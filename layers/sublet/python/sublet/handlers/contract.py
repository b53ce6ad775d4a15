"""Whether a function can be called as a handler: by its looks before its first call, and by what a call returned.

A handler that merely looks like one is worse than one that fails: calling a generator function runs nothing of it, and its
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
"""What is called of a user's under our own contract, and with which arguments. Only the first is required."""

WITH_PENDING = (*CONTRACT["lease_acquired"], "pending")
"""What lease_acquired is called with if it takes so many: also what is pending, of a checkpoint in two phases."""

_LAZY = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def misfit(function: object, called_with: Sequence[str], *, is_awaited: bool = True) -> str | None:
    """Why it cannot be called with these, to be put after its name; None: nothing speaks against it. `is_awaited`: whoever calls
    it waits for what it returns.

    What a decorator wraps is not looked at: one that collects what a generator yields makes a plain function of it.
    """
    if not callable(function):
        return f"is of type {type(function).__name__}, and no function"
    if isinstance(function, type):
        return "is a class: calling it makes an instance and handles nothing; name a function, or an instance's method"
    if any(is_lazy(_called(function)) for is_lazy in _LAZY):
        return (
            "is a generator: calling it runs nothing of it, and its records would count as done; "
            "make it a plain function, or async def without yield"
        )
    if not is_awaited and is_async(function):
        return "is async, and is called where nobody awaits it: use sublet.aio, or make it a plain function"
    return _wrong_arguments(function, called_with)


def finished(returned: object) -> object:
    """What a call of the user's returned, once its work is done: an awaitable is waited for, on the process' event loop.

    Raises HandlerContractBroken for what is still to be done after that: such as the coroutine that an async def has returned
    for lack of an `await`.
    """
    if inspect.isawaitable(returned):
        from sublet.handlers.event_loop import LOOP  # noqa: PLC0415 - asyncio, which only coroutines need

        returned = LOOP.result_of(returned)
    check_ran(returned)
    return returned


def check_ran(returned: object) -> None:
    """Raise HandlerContractBroken if the work of the call is not done: nobody waits for what it returned, or for something in the
    list, set or dict that it returned.
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
    """Of a container, one level deep."""
    if isinstance(returned, Mapping):
        return tuple(returned.values())
    return tuple(returned) if isinstance(returned, list | tuple | set | frozenset) else ()


def _left_undone(value: object) -> str | None:
    """What to do instead of returning it; None: it stands for no work that is still to be done."""
    if inspect.isasyncgen(value) or isinstance(value, Iterator):
        return "of which nothing has run: use a loop instead of yield or map"
    if inspect.isawaitable(value) or isinstance(value, Future):
        return "whose work nobody waits for: await it, or ask it for its result(), before you return"
    if _is_pools(value):
        return "whose work nobody waits for: ask it for get() before you return"
    if _is_generator_context(value):
        return "of which nothing has run: remove @contextmanager, or enter it with `with` before you return"
    return None


def _is_pools(value: object) -> bool:
    """A result of multiprocessing's pools, which nothing here imports."""
    pools = sys.modules.get("multiprocessing.pool")
    return pools is not None and isinstance(value, pools.AsyncResult)


def _is_generator_context(value: object) -> bool:
    """What a function under @contextmanager or @asynccontextmanager returns: it keeps the generator, not begun, as `gen`."""
    generator = (
        getattr(value, "gen", None) if isinstance(value, ContextDecorator | AsyncContextDecorator) else None
    )
    return inspect.isgenerator(generator) or inspect.isasyncgen(generator)


def check_returned(returned: object) -> None:
    """Raise HandlerContractBroken if what has finished says in another contract's way what is done. Anything else but None is
    warned about, once, and ignored: also where the user's filters make errors of warnings, since the batch has been handled.
    """
    if returned is None:
        return
    if isinstance(returned, Mapping) and FAILURES in returned:
        raise HandlerContractBroken(
            f"the handler returned {FAILURES}, which is the contract of Lambda's event source mapping: "
            "call batch.checkpoint(record) for what is done, then raise for what is not, or take (event, context) and set "
            "handler_contract=lambda_event"
        )
    with suppress(UserWarning):
        warnings.warn(
            f"the handler returned {_a(returned)}, which is ignored: a call that returns has handled its whole batch",
            stacklevel=2,
        )


def is_async(function: Callable[..., object]) -> bool:
    """Whether a call of it makes a coroutine: of a function, a partial of one, or an object's `__call__`."""
    return inspect.iscoroutinefunction(_called(function))


def _called(function: Callable[..., object]) -> object:
    """What runs when it is called: through partial, and an object's `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else function.__call__  # type: ignore[operator] # `callable` says that it has one


def _wrong_arguments(function: Callable[..., object], called_with: Sequence[str]) -> str | None:
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # one written in C may not tell
        return None
    try:
        signature.bind(*called_with)
    except TypeError:
        by_position = ", by position" if "*" in _parameters(signature) else ""
        return f"takes {_parameters(signature)}, but is called with ({', '.join(called_with)}){by_position}"
    return None


def _parameters(signature: inspect.Signature) -> str:
    """Their names, and after a star those that are given by name alone."""
    bare = [p.replace(annotation=p.empty, default=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))


def _a(value: object) -> str:
    """Its type alone: the value may hold what a record holds."""
    return f"a value of type {type(value).__name__}"
