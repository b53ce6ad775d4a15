"""How far a page is from the user's handler: the calls between them, as a debugger shows them.

`python -m pytest -s tests/unit/engine/test_frames.py` prints them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType

import pytest
import sublet
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.session.session import LeaseSession
from sublet.handler import Batch
from sublet.handlers.load import handler_of
from sublet.settings import Settings

from tests.doubles.engine_world import MINUTE, NO_WAITING, EngineWorld, only

SUBLET = str(Path(sublet.__file__).parent)
MOST = 8
PAGE_IN_HAND = LeaseSession._pages.__code__
"""Here the session has the page."""

WAITS = "engine/calls/call_limits.py _do_in_thread"
"""With a time limit the handler has a thread of its own, and the session's thread waits here for the call."""


def frames(of: FrameType | None) -> list[CodeType]:
    """The library's own functions on this stack that lead to the handler, outermost first."""
    found = []
    while of is not None and of.f_code is not PAGE_IN_HAND:
        found.append(of.f_code)
        of = of.f_back
    return [code for code in reversed(found) if code.co_filename.startswith(f"{SUBLET}/")]


def shown(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(SUBLET)} {code.co_name}"


def engine(code: CodeType) -> bool:
    """Whether it is part of a call, rather than of what starts its thread."""
    return shown(code).startswith(("engine/", "handlers/"))


def from_page_to_handler(settings: Settings) -> list[str]:
    stacks: list[list[CodeType]] = []

    def handle(_: Batch) -> None:
        mine = frames(sys._getframe(1))
        others = [frames(each) for thread, each in sys._current_frames().items() if thread != get_ident()]
        [waiting] = [each for each in others if WAITS in map(shown, each)] or [[]]
        stacks.append([code for code in (*waiting, *mine) if engine(code)])

    world = EngineWorld(settings)
    world.handler = handler_of(handle, settings)  # type: ignore[assignment] # as a handler
    world.put("a")
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    [stack] = stacks
    return list(map(shown, stack))


@pytest.mark.parametrize("handler_timeout", [None, MINUTE])
def test_page_reaches_handler_in_few_calls_and_returns_to_no_file(handler_timeout: timedelta | None) -> None:
    path = from_page_to_handler(replace(NO_WAITING, handler_timeout=handler_timeout))
    print(f"\n{len(path)} frames", *path, sep="\n  ")
    assert path[-1] == "handlers/batch.py handle"
    assert len(path) <= MOST
    files = [line.split()[0] for line in path]
    entered = [file for file, before in zip(files, ["", *files], strict=False) if file != before]
    assert len(entered) == len(set(entered)), "a file is left and entered again"
