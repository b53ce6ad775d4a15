"""Puts lines as records, in their order: at a rate, with their progress, and with the line to go on from if it ends
early.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import FrameType
from typing import NamedTuple

from sublet.decisions.plurals import counted
from sublet.errors import RecordsNotPut, SubletError
from sublet.operate.rules.put_rate import PutRate, RatePacing
from sublet.ports import Clock, Tasks
from sublet.protocol.stream_info import PutRecord
from sublet.putting.producer import Producer

FIRST_SAID, SAID_EVERY = timedelta(seconds=2), timedelta(seconds=10)
"""How long a put may take before it says its progress, and how often it does so then."""


INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class PutLine(NamedTuple):
    key: str
    data: bytes


@dataclass(slots=True)
class LinePut:
    """`run` it once.

    lines    raise SubletError for a line that cannot be a record
    show     gets each record once it is in the stream, in order, even while this waits for more lines
    say      gets sentences about the progress
    skipped  how many lines were left out before the first
    """

    producer: Producer
    lines: Iterable[PutLine]
    show: Callable[[PutRecord], object]
    say: Callable[[str], object]
    clock: Clock
    tasks: Tasks
    rate: PutRate | None = None
    skipped: int = 0

    def run(self) -> None:
        """Raises SubletError of the first line that was not put, which says its number, how many records were put
        before, and how to go on. After KeyboardInterrupt, and if `show` raises, it puts the lines that it has read,
        says how to go on, and raises that.
        """
        shown = _OrderedOutput(self.show)
        began = self.clock.steady()
        try:
            self._put_all(shown, began)
        except SubletError as problem:
            self._close()
            raise self._at_line(shown.failure or problem, shown.count) from problem
        except KeyboardInterrupt:
            self._close()
            self._say_how_to_go_on(shown.count)
            raise
        finally:
            self._close()
        if shown.failure is not None:
            raise self._at_line(shown.failure, shown.count)
        if shown.output_failure is not None:
            self._say_how_to_go_on(shown.count)
            raise shown.output_failure
        if (took := self.clock.steady() - began) >= FIRST_SAID:
            self.say(_progress(shown.count, took))

    def _put_all(self, shown: _OrderedOutput, began: datetime) -> None:
        pacing = None if self.rate is None else RatePacing(self.rate)
        pause, says_at = self.tasks.signal(), began + FIRST_SAID
        for line in self.lines:
            if shown.has_failed:
                return
            if pacing is not None and (wait := pacing.wait(self.clock.steady())):
                pause.wait(wait)
            with _interrupted_afterwards():
                shown.expect(self.producer.put(line.key, line.data))
            if (now := self.clock.steady()) >= says_at:
                self.say(_progress(shown.count, now - began))
                says_at = now + SAID_EVERY

    def _close(self) -> None:
        with suppress(RecordsNotPut):  # the first record that was given up says why
            self.producer.close()

    def _say_how_to_go_on(self, count: int) -> None:
        self.say(f"{_put(count)}; go on with --skip {self.skipped + count}")

    def _at_line(self, problem: BaseException, before: int) -> BaseException:
        if not isinstance(problem, SubletError):
            return problem
        done, count = self.skipped + before, counted(before, "record before it was", "records before it were")
        problem.args = (f"line {done + 1:,}: {problem}; {count} put; go on with --skip {done}",)
        return problem


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Ctrl-C, and SIGTERM where it does the same, waits until the block is over, so that each record that the producer
    took is counted. A second one does not wait, since a put may wait for room.
    """
    interrupts = [each for each in INTERRUPTS if signal.getsignal(each) is signal.default_int_handler]
    if threading.current_thread() is not threading.main_thread():
        interrupts = []
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True

    for each in interrupts:
        signal.signal(each, note)
    try:
        yield
    finally:
        for each in interrupts:
            signal.signal(each, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def _put(count: int) -> str:
    return f"{counted(count, 'record was', 'records were')} put"


def _progress(count: int, took: timedelta) -> str:
    seconds = took.total_seconds()
    return f"{_put(count)} in {seconds:,.0f} s, {count / seconds:,.1f} a second"


class _OrderedOutput:
    """Shows records in the order of their puts, although several threads report them.

    count           how many records were put
    failure         why the first record was not put
    output_failure  why the first record could not be shown; those behind it are counted
    """

    def __init__(self, show: Callable[[PutRecord], object]) -> None:
        self.count = 0
        self.failure: BaseException | None = None
        self.output_failure: Exception | None = None
        self._show = show
        self._lock = threading.Lock()
        self._waiting: deque[Future[PutRecord]] = deque()

    @property
    def has_failed(self) -> bool:
        return self.failure is not None or self.output_failure is not None

    def expect(self, future: Future[PutRecord]) -> None:
        with self._lock:
            self._waiting.append(future)
        future.add_done_callback(lambda _: self._show_done())

    def _show_done(self) -> None:
        with self._lock:
            while self.failure is None and self._waiting and self._waiting[0].done():
                try:
                    done = self._waiting.popleft().result(0)
                except Exception as problem:  # noqa: BLE001 -- raised where the lines are read
                    self.failure = problem
                    return
                self.count += 1
                if self.output_failure is None:
                    try:
                        self._show(done)
                    except Exception as problem:  # noqa: BLE001 -- the same
                        self.output_failure = problem
