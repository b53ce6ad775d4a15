"""Serving until Ctrl-C."""

from __future__ import annotations

import signal
from threading import Timer

import pytest
from sublet.operate.console.server import listen, serve

from tests.doubles.console_world import ConsoleWorld


@pytest.mark.timeout(20)
@pytest.mark.parametrize("delay", [None, 0.0, 0.01, 0.3])
def test_ctrl_c_ends_the_console_before_and_after_it_runs(delay: float | None) -> None:
    """None: while the link is printed, before the server runs."""

    def begun(_: str) -> None:
        if delay is None:
            signal.raise_signal(signal.SIGINT)
        else:
            Timer(delay, signal.raise_signal, [signal.SIGINT]).start()

    before = signal.getsignal(signal.SIGINT)
    serve(ConsoleWorld().console, listen("127.0.0.1", 0), frozenset(), begun)
    assert signal.getsignal(signal.SIGINT) is before
