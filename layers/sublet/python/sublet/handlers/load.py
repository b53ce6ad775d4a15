"""Loads the user's handler, in whichever form and contract, as the Handler port."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from sublet.errors import HandlerNotLoadable
from sublet.handler import Handler
from sublet.handlers.batch import HandlerFunctions
from sublet.handlers.contract import CONTRACT, WITH_PENDING, misfit
from sublet.handlers.import_failure import place_of, said_with_place
from sublet.handlers.lambda_context import FunctionIdentity
from sublet.handlers.shape import (
    CALLED_WITH,
    PROCESS_RECORDS,
    another_kind,
    meant_for_another,
    signature_of,
)
from sublet.settings import HandlerContract, Settings

OPTIONAL = tuple(role for role in CONTRACT if role != "handle")


class NamedHandler(NamedTuple):
    """What a user gave as a handler. `said`: how an error message begins."""

    value: object
    owner: object
    """The module or object that may have the optional functions too; None for a function alone."""
    said: str


def handler_of(handler: object, settings: Settings | None = None, identity: FunctionIdentity | None = None) -> Handler:
    """A Handler from a function, an object or module with a function `handle`, or the text `module:function`.

    The contract is ours unless the settings name another one. Ours takes its optional functions from the object, or
    from the module in the text. `identity`: the Lambda function that it runs in, if any. Raises HandlerNotLoadable.
    """
    named = _imported_as(handler) if isinstance(handler, str) else _given(handler)
    contract = HandlerContract.BATCH if settings is None else settings.handler_contract
    problem = another_kind(callable(getattr(named.value, PROCESS_RECORDS, None)), contract)
    if problem is not None:
        raise HandlerNotLoadable(f"{named.said} {problem}")
    if settings is None or contract is HandlerContract.BATCH:
        return _functions(named)
    if contract is HandlerContract.RECORD_PROCESSOR:
        return _processors(named)
    return _lambda_handler(named, settings, identity or FunctionIdentity.of_process(settings))


def load_handler(reference: str, settings: Settings | None = None, identity: FunctionIdentity | None = None) -> Handler:
    """Import `module:function` or `module:object`; the rest as in handler_of.

    Raises HandlerNotLoadable, with one sentence that says which part of the reference is wrong.
    """
    return handler_of(reference, settings, identity)


def _given(handler: object) -> NamedHandler:
    name = getattr(handler, "__qualname__", None) or getattr(handler, "__name__", type(handler).__name__)
    if _has_handle(handler):
        return NamedHandler(_handle_of(handler), handler, f"handler {name}: {name}.handle")
    if callable(handler) or hasattr(handler, PROCESS_RECORDS):
        return NamedHandler(handler, None, f"handler {name}: it")
    raise HandlerNotLoadable(f"handler {name} is not a function, and has no function handle")


def _imported_as(reference: str) -> NamedHandler:
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise HandlerNotLoadable(
            f"handler {reference!r} is not of the form module:function, such as orders.handler:handle"
        )
    module = _imported(module_name, reference)
    try:
        value = getattr(module, name)
    except AttributeError as missing:
        raise HandlerNotLoadable(
            f"handler {reference!r}: module {module_name} has no function {name}{_what_it_has(module)}"
        ) from missing
    except Exception as failure:  # raised by its own __getattr__
        raise HandlerNotLoadable(
            f"handler {reference!r}: looking for {name} in {module_name} raised {said_with_place(failure)}"
        ) from failure
    said = f"handler {reference!r}: {module_name}.{name}"
    if _has_handle(value):
        return NamedHandler(_handle_of(value), value, f"{said}.handle")
    return NamedHandler(value, module, said)


def _imported(module_name: str, reference: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name and (module_name == missing.name or module_name.startswith(f"{missing.name}.")):
            is_file = module_name.endswith(".py")
            meant = f"; did you mean {reference.replace('.py:', ':').replace('/', '.')}?" if is_file else ""
            raise HandlerNotLoadable(
                f"handler {reference!r}: there is no module {missing.name} on the Python path{meant}"
            ) from missing
        raise HandlerNotLoadable(
            f"handler {reference!r}: {module_name} imports {missing.name}, which is not installed{place_of(missing)}"
        ) from missing
    except (Exception, SystemExit) as failure:
        raise HandlerNotLoadable(
            f"handler {reference!r}: importing {module_name} raised {said_with_place(failure)}"
        ) from failure


def _what_it_has(module: ModuleType) -> str:
    """The functions and classes that the module defines itself."""
    own = (
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    )
    return f"; it has: {', '.join(names)}" if (names := sorted(own)) else ""


def _has_handle(value: object) -> bool:
    """True for an object or a module with a function `handle`. Not for a class, whose functions would lack their
    `self`.
    """
    return callable(getattr(value, "handle", None)) and not isinstance(value, type)


def _handle_of(owner: object) -> object:
    return getattr(owner, "handle", None)


def _functions(named: NamedHandler) -> HandlerFunctions:
    said = named.said.rpartition(".")[0]
    found = _optional_of(named.owner, said)
    wants_pending = _takes_pending(found.get("lease_acquired"))
    called_with = {**CONTRACT, "lease_acquired": WITH_PENDING} if wants_pending else CONTRACT
    return HandlerFunctions(
        _meant(named, HandlerContract.BATCH),
        wants_pending=wants_pending,
        **{f"on_{role}": _checked(function, called_with[role], f"{said}.{role}") for role, function in found.items()},
    )


def _optional_of(owner: object, said: str) -> dict[str, object]:
    if owner is None:
        return {}
    try:
        return {role: getattr(owner, role) for role in OPTIONAL if hasattr(owner, role)}
    except Exception as failure:  # raised by its own __getattr__
        raise HandlerNotLoadable(
            f"{said}: looking for its lease functions raised {said_with_place(failure)}"
        ) from failure


def _takes_pending(lease_acquired: object) -> bool:
    """Whether it takes a third argument by name. With *args it is called with two, as in earlier versions."""
    takes = signature_of(lease_acquired) if callable(lease_acquired) else None
    return takes is not None and len(takes.names) >= len(WITH_PENDING)


def _lambda_handler(named: NamedHandler, settings: Settings, identity: FunctionIdentity) -> Handler:
    from sublet.handlers.lambda_event import LambdaEventHandler, turn_of  # noqa: PLC0415 - keeps the cold start of other contracts short

    return LambdaEventHandler(
        _meant(named, HandlerContract.LAMBDA_EVENT),
        identity,
        settings.invoke_identity_arn or "",
        turn_of(settings),
        reports_failures=settings.report_batch_item_failures,
    )


def _processors(named: NamedHandler) -> Handler:
    """Makes processors from a class, or from a callable that returns one."""
    from sublet.handlers.kcl_checkpointer import checkpoint_error  # noqa: PLC0415 - as above
    from sublet.handlers.record_processor import (  # noqa: PLC0415 - as above
        RecordProcessorHandler,
        is_unstated_first,
    )

    if not isinstance(named.value, type):
        if callable(getattr(named.value, PROCESS_RECORDS, None)):
            raise HandlerNotLoadable(
                f"{named.said} is one record processor: name its class, since each lease has an instance of its own"
            )
        return RecordProcessorHandler(_meant(named, HandlerContract.RECORD_PROCESSOR), checkpoint_error())
    if not callable(getattr(named.value, PROCESS_RECORDS, None)):
        raise HandlerNotLoadable(f"{named.said} is a class without {PROCESS_RECORDS}, so it is not a record processor")
    try:
        inspect.signature(named.value).bind()
    except TypeError as takes:
        raise HandlerNotLoadable(
            f"{named.said} cannot be made without arguments, and each lease has an instance of its own: {takes}"
        ) from takes
    except ValueError:  # a class written in C may have no signature
        pass
    if is_unstated_first(named.value):
        raise HandlerNotLoadable(
            f"{named.said}: its {PROCESS_RECORDS} takes two arguments, as of version 1 of kclpy's interface: "
            "set `version = 1` in the class"
        )
    return RecordProcessorHandler(named.value, checkpoint_error())


def _meant(named: NamedHandler, contract: HandlerContract) -> Callable[..., object]:
    """The function, if it is a handler of this contract. Otherwise the error names the contract that it fits."""
    takes = signature_of(named.value) if callable(named.value) and not isinstance(named.value, type) else None
    problem = takes and meant_for_another(takes, contract)
    if problem:
        raise HandlerNotLoadable(f"{named.said} {problem}")
    return _checked(named.value, CALLED_WITH[contract], named.said)


def _checked(function: object, called_with: tuple[str, ...], said: str) -> Callable[..., object]:
    problem = misfit(function, called_with)
    if problem is not None or not callable(function):
        raise HandlerNotLoadable(f"{said} {problem}")
    return function
