"""The same judgement of a function's source, when a stack is made, and of the function itself, when its worker
starts.
"""

from __future__ import annotations

import ast

import pytest
from sublet.handlers.shape import meant_for_another, signature_in, signature_of
from sublet.settings import HandlerContract

SOURCES = {
    "(batch)": None,
    "(event)": None,
    "(batch, /)": None,
    "(*batches)": None,
    "(batch, *more)": None,
    "(batch, table=None)": None,
    "(batch, *, table=None)": None,
    "(event, context)": HandlerContract.LAMBDA_EVENT,
    "(event, _context)": HandlerContract.LAMBDA_EVENT,
    "(first, second)": HandlerContract.LAMBDA_EVENT,
    "(event, context=None)": HandlerContract.LAMBDA_EVENT,
    "(first, second, third)": None,
    "()": None,
}
"""What each takes, and the contract that it must be meant for if not for ours."""


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
@pytest.mark.parametrize(("takes", "other"), SOURCES.items(), ids=SOURCES)
def test_source_and_function_are_judged_alike(takes: str, other: HandlerContract | None, is_async: bool) -> None:
    source = f"{'async ' if is_async else ''}def handle{takes}: ..."
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    made: dict[str, object] = {}
    exec(source, made)  # noqa: S102 - its own source
    handle = made["handle"]
    assert callable(handle)
    signature = signature_in(function)
    assert signature == signature_of(handle)
    assert signature is not None
    problem = meant_for_another(signature, HandlerContract.BATCH)
    assert (problem is None) == (other is None)
    assert other is None or f"set handler_contract={other}" in str(problem)


def test_decorated_function_has_no_signature_in_its_source() -> None:
    [function] = ast.parse("@adapted\ndef handle(event, context): ...").body
    assert isinstance(function, ast.FunctionDef)
    assert signature_in(function) is None
