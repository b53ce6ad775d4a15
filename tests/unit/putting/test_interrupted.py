"""A signal's handler that raises at any line of a thread that flushes or closes: nothing that was put is lost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import wait
from linecache import getline
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import sublet
from sublet import Producer
from sublet.testing.memory import MemoryAccount

OURS = str(Path(sublet.__file__).parent)


def interrupted(call: Callable[[], None], at: int) -> bool:
    """Raises a KeyboardInterrupt at the nth line of sublet's that the call runs; False if fewer run. Python looks for
    signals before and after a lock's with statement. In a thread of its own: an exception that a trace function raises
    in an `except` block stays the context of the thread's later ones.
    """
    ran = 0
    was_interrupted = False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal ran
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        is_with = getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
        if event == "line" and not is_with:
            ran += 1
            if ran == at:
                raise KeyboardInterrupt
        return trace

    def traced() -> None:
        nonlocal was_interrupted
        sys.settrace(trace)
        try:
            call()
        except KeyboardInterrupt:
            was_interrupted = True
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=traced)
    thread.start()
    thread.join(60)
    return was_interrupted


@pytest.mark.parametrize("call", [Producer.flush, Producer.close])
def test_records_are_stored_wherever_a_flush_or_close_is_interrupted(
    call: Callable[[Producer], None],
) -> None:
    at = 0
    while True:
        at += 1
        account = MemoryAccount()
        account.create("orders", 2)
        producer = Producer("orders", account=account, record_max_buffered_time=3600)
        futures = [producer.put(f"key {number}", b"x") for number in range(3)]
        was_interrupted = interrupted(lambda producer=producer: call(producer), at)  # type: ignore[misc]
        producer._lazy_loop.loop(producer._tell).close()  # as at Python's exit
        assert not wait(futures, timeout=20).not_done, f"interrupted at line {at}"
        producer._lazy_loop.closed()
        if not was_interrupted:
            break
    assert at > 10
