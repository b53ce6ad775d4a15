"""Lines that are put: in order, at a rate, with their progress, and with the line to go on from."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from datetime import timedelta

import pytest
from sublet.errors import PayloadUnreadable, StreamError
from sublet.operate.cli.records.put import lines_of, records_of
from sublet.operate.put_lines import LinePut
from sublet.operate.rules.partition_key_template import KeyTemplate
from sublet.operate.rules.put_rate import PutRate
from sublet.protocol.stream_info import PutRecord
from sublet.pull.streams import Stream
from sublet.putting.producer import Producer
from sublet.testing.memory import FakeClock, MemoryAccount
from sublet.testing.turn_taking import TurnTaking

SECOND = timedelta(seconds=1)


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.account = MemoryAccount(clock=self.clock, tasks=TurnTaking(self.clock))
        self.account.create("events", 1)
        self.stream = Stream(self.account, "events")
        self.shown: list[PutRecord] = []
        self.said: list[str] = []

    def put(
        self,
        data: Iterable[bytes],
        key: str | None = "k",
        *,
        show: Callable[[PutRecord], object] | None = None,
        rate: str | None = None,
        skipped: int = 0,
    ) -> None:
        template = None if key is None else KeyTemplate.parse(key)
        LinePut(
            Producer("events", account=self.account, aggregation_enabled=False),
            records_of(iter(data), template, None),
            show or self.shown.append,
            self.said.append,
            self.clock,
            self.account.tasks,
            None if rate is None else PutRate.parse(rate),
            skipped,
        ).run()

    def keys(self) -> list[str | None]:
        return [self.stream.get(one.shard_id, one.sequence_number)[0].partition_key for one in self.shown]


def test_each_record_has_its_own_key_without_a_key() -> None:
    bench = Bench()
    bench.put([b"1", b"2", b"3"], None)
    assert len(set(bench.keys())) == 3


def test_keys_are_made_from_fields() -> None:
    bench = Bench()
    bench.put([b'{"customer": "ada"}', b'{"customer": 7}'], "{customer}")
    assert bench.keys() == ["ada", "7"]
    assert bench.said == [], "within two seconds there is nothing to say"


def test_lines_are_records_without_their_ends() -> None:
    assert list(lines_of([b"one\n", b"two\r\n", b"", b"three"])) == [b"one", b"two", b"", b"three"]


@pytest.mark.parametrize("bad", [bytes(11 * 2**20), bytes(2 * 2**20)])
def test_a_refused_line_is_named_with_what_was_put_before(bad: bytes) -> None:
    """One that no stream takes, and one that this stream does not take."""
    with pytest.raises(StreamError, match=r"^line 3: .*; 2 records before it were put; go on with --skip 2$"):
        Bench().put([b"1", b"2", bad, b"4"])
    with pytest.raises(StreamError, match=r"^line 12: .*; 1 record before it was put; go on with --skip 11$"):
        Bench().put([b"1", bad], skipped=10)


def test_a_line_without_the_keys_field_is_named() -> None:
    bench = Bench()
    why = "^line 2: the record has no field customer.*; 1 record before it was put; go on with --skip 1$"
    with pytest.raises(PayloadUnreadable, match=why):
        bench.put([b'{"customer": "ada"}', b"{}", b'{"customer": "bob"}'], "{customer}")
    assert bench.keys() == ["ada"]
    with pytest.raises(PayloadUnreadable, match=r"^line 1: not JSON"):
        bench.put([b"customer"], "{customer}")


def test_ctrl_c_puts_what_was_read_and_says_how_to_go_on() -> None:
    bench = Bench()

    def interrupted() -> Iterator[bytes]:
        yield from (b"1", b"2", b"3")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.put(interrupted(), skipped=4)
    assert len(bench.shown) == 3
    assert bench.said == ["3 records were put; go on with --skip 7"]


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def interrupt(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """As in a terminal, since a background job ignores it, and within the command."""
    before = signal.signal(request.param, signal.default_int_handler)
    yield request.param
    signal.signal(request.param, before)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_within_a_put_counts_its_record(
    interrupt: signal.Signals, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Or the same command with the --skip that is said would put it twice."""
    bench, put = Bench(), Producer.put

    def interrupted(self: Producer, key: str, data: bytes) -> Future[PutRecord]:
        if data == b"2" and when == "before":
            signal.raise_signal(interrupt)
        future = put(self, key, data)
        if data == b"2" and when == "after":
            signal.raise_signal(interrupt)
        return future

    monkeypatch.setattr(Producer, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.put([b"1", b"2", b"3"])
    assert len(bench.shown) == 2
    assert bench.said == ["2 records were put; go on with --skip 2"]
    assert signal.getsignal(interrupt) is signal.default_int_handler


def test_a_second_interrupt_ends_a_put_that_waits(interrupt: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    def waiting(*_: object) -> Future[PutRecord]:
        signal.raise_signal(interrupt)
        signal.raise_signal(interrupt)
        raise AssertionError("it goes on waiting")

    monkeypatch.setattr(Producer, "put", waiting)
    with pytest.raises(KeyboardInterrupt):
        Bench().put([b"1"])


def test_put_ends_when_its_output_is_closed_and_says_how_to_go_on() -> None:
    """The record that could not be shown is put, and so are those behind it that were read."""
    bench = Bench()

    def broken(_: PutRecord) -> None:
        raise BrokenPipeError

    lines = (b"%d" % number for number in range(100))
    with pytest.raises(BrokenPipeError):
        bench.put(lines, show=broken, rate="10/s", skipped=10)
    put = int(next(lines)) - 1  # one more was read, and not put
    assert 1 < put < 10
    assert bench.said == [f"{put} records were put; go on with --skip {put + 10}"]


def test_record_refused_behind_a_closed_output_is_the_one_to_go_on_with() -> None:
    bench = Bench()

    def broken(_: PutRecord) -> None:
        raise BrokenPipeError

    with pytest.raises(PayloadUnreadable, match=r"line 2: .*; 1 record before it was put; go on with --skip 1"):
        bench.put([b'{"id": 1}', b"{"], "{id}", show=broken)


def test_a_rate_spreads_lines_and_progress_is_said() -> None:
    bench, began = Bench(), FakeClock().steady()
    bench.put([b"x"] * 121, rate="10/s")
    arrived = [
        bench.stream.get(one.shard_id, one.sequence_number)[0].approximate_arrival_timestamp for one in bench.shown
    ]
    assert arrived[-1] - arrived[0] >= 11 * SECOND
    assert 11 * SECOND <= bench.clock.steady() - began <= 14 * SECOND
    assert [line.partition(" records were put in ")[2] for line in bench.said][-1] == "12 s, 10.1 a second"
    assert len(bench.said) == 3, "after two seconds, ten seconds later, and at the end"
