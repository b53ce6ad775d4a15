"""Whether a function is a handler of our contract: by its looks before its first call, and by what a call returned.

A handler that merely looks like one is worse than one that fails: calling an async function runs nothing of it, and its
records would count as done.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from sublet.errors import HandlerContractBroken

CONTRACT = {
    "handle": ("batch",),
    "lease_acquired": ("shard_id", "checkpoint"),
    "lease_releasing": ("shard_id",),
    "lease_lost": ("shard_id",),
    "shard_ended": ("shard_id",),
}
"""What is called of a user's, and with which arguments. Only the first is required."""

_LAZY = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def misfit(function: object, role: str) -> str | None:
    """Why it cannot be called as `role`, to be put after its name; None: nothing speaks against it.

    What a decorator wraps is not looked at: one that runs a coroutine makes a plain function of it.
    """
    if not callable(function):
        return f"is a {type(function).__name__}, not a function"
    if isinstance(function, type):
        return "is a class: calling it makes an instance and handles nothing; name a function, or an instance's method"
    if any(is_lazy(_called(function)) for is_lazy in _LAZY):
        return (
            "is async or a generator: calling it runs nothing of it, and its records would count as done; "
            "make it a plain function"
        )
    return _wrong_arguments(function, CONTRACT[role])


def check_returned(returned: object) -> None:
    """Raise HandlerContractBroken if the call has not done its work, or says so in another contract's way.

    Anything else but None is warned about, once, and ignored.
    """
    if returned is None:
        return
    if inspect.isawaitable(returned) or inspect.isasyncgen(returned):
        if inspect.iscoroutine(returned):
            returned.close()  # or else Python says that it was never awaited
        raise HandlerContractBroken(
            f"the handler returned {_a(returned)}, the work of which is not done: make it a plain function, "
            "or have it run its coroutine (asyncio.run)"
        )
    if isinstance(returned, Iterator):
        raise HandlerContractBroken(
            f"the handler returned {_a(returned)}, of which nothing has run: use a loop instead of yield or map"
        )
    if isinstance(returned, Mapping) and "batchItemFailures" in returned:
        raise HandlerContractBroken(
            "the handler returned batchItemFailures, which is the contract of Lambda's event source mapping: "
            "call batch.checkpoint(record) for what is done, then raise for what is not"
        )
    warnings.warn(
        f"the handler returned {_a(returned)}, which is ignored: a call that returns has handled its whole batch",
        stacklevel=2,
    )


def _called(function: Callable[..., object]) -> object:
    """What runs when it is called: through partial, and an object's `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else function.__call__  # type: ignore[operator] # `callable` says that it has one


def _wrong_arguments(function: Callable[..., object], names: tuple[str, ...]) -> str | None:
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # one written in C may not tell
        return None
    try:
        signature.bind(*names)
    except TypeError:
        return f"takes ({', '.join(signature.parameters)}), but is called with ({', '.join(names)})"
    return None


def _a(value: object) -> str:
    """Its type alone: the value may hold what a record holds."""
    return f"a value of type {type(value).__name__}"
