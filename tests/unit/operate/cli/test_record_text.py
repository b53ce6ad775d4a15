"""How records are shown: no payload moves the cursor, and JSON, text and hex show all of it."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime

import pytest
from sublet.operate.cli.main import main
from sublet.operate.cli.records.get import RecordNumber, record_number
from sublet.operate.cli.records.get import show as show_found
from sublet.operate.cli.text.record_text import RecordForm, add_form, add_selecting, is_selected, text_of
from sublet.protocol.aggregation import aggregate
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.protocol.stream_info import PutRecord
from sublet.pull.streams import Stream
from sublet.testing.memory import FakeClock, MemoryAccount
from sublet.testing.turn_taking import TurnTaking

AT = datetime(2026, 11, 22, 8, tzinfo=UTC)
SHARD = "shardId-000000000000"


def record(data: bytes, key: str | None = "customer-7") -> UserRecord:
    return UserRecord(data, key, 0, StreamRecord("5", data, key, AT))


def test_a_form_is_one_of_four() -> None:
    parser = ArgumentParser()
    add_form(parser)
    forms = [parser.parse_args(words).form for words in ([], ["--text"], ["--hex"], ["--json"])]
    assert forms == list(RecordForm)
    with pytest.raises(SystemExit):
        parser.parse_args(["--text", "--hex"])


def test_record_text_shows_all_data_as_text_or_bytes() -> None:
    of = record(b'{"a": 1}\nsecond\x1b[2J' + b"x" * 200)
    head, first, second = text_of(of, RecordForm.TEXT).split("\n")
    assert head == "2026-11-22T08:00:00Z       219 B  customer-7                5:0"
    assert first == '  {"a": 1}'
    assert second == "  second·[2J" + "x" * 200
    lines = text_of(of, RecordForm.HEX).split("\n")
    assert lines[1] == '  00000000  7b 22 61 22 3a 20 31 7d 0a 73 65 63 6f 6e 64 1b  |{"a": 1}.second.|'
    assert len(lines) == 1 + 14
    assert bytes.fromhex("".join(line[12:59] for line in lines[1:])) == of.data


def test_record_text_names_its_shard_where_shards_mix() -> None:
    assert f"  {SHARD}  " in text_of(record(b"1"), RecordForm.LINE, SHARD)
    assert f'"shard_id": "{SHARD}"' in text_of(record(b"1"), RecordForm.JSON, SHARD)
    assert "shard_id" not in text_of(record(b"1"), RecordForm.JSON)


@pytest.mark.parametrize("form", [RecordForm.LINE, RecordForm.JSON])
def test_control_characters_in_a_key_or_in_data_are_escaped(form: RecordForm) -> None:
    assert text_of(record(b"\x1b[2J\r\n", "k\x1b[2Jey"), form).isprintable()


@pytest.mark.parametrize(
    ("words", "selected"),
    [
        ([], True),
        (["--key", "customer-7"], True),
        (["--key", "customer-8"], False),
        (["--grep", "ber"], True),
        (["--grep", "ber", "--key", "other"], False),
    ],
)
def test_records_are_selected_by_key_and_text(words: list[str], selected: bool) -> None:
    parser = ArgumentParser()
    add_selecting(parser)
    assert is_selected(record("über".encode()), parser.parse_args(words)) is selected


@pytest.mark.parametrize(
    ("text", "number"),
    [("49", RecordNumber("49", None)), ("49:2", RecordNumber("49", 2)), ("49/0", RecordNumber("49", 0))],
)
def test_a_record_is_named_by_its_number_and_its_number_within_the_aggregate(text: str, number: RecordNumber) -> None:
    assert record_number(text) == number


@pytest.mark.parametrize("text", ["", "LATEST", "49:", "49:x", "-1", "49:1:2", "٤٩", "49:٢"])
def test_record_number_is_refused_for_other_text(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a sequence number"):
        record_number(text)


@pytest.fixture
def stream() -> Stream:
    clock = FakeClock()
    account = MemoryAccount(clock=clock, tasks=TurnTaking(clock))
    account.create("events", 1)
    return Stream(account, "events")


def put(stream: Stream, data: list[bytes], key: str) -> list[PutRecord]:
    return [stream.put(key, each) for each in data]


def test_record_is_found_by_its_sequence_number(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = put(stream, [b"1", b"2"], "customer-7")
    options = Namespace(
        shard=one.shard_id, number=RecordNumber(two.sequence_number, None), form=RecordForm.LINE, data=False
    )
    assert show_found(stream, options) == 0
    assert capsys.readouterr().out.endswith(f"{two.sequence_number}:0\n  2\n")


def test_get_shows_one_user_record_of_an_aggregate(stream: Stream, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    packed = aggregate([("a", None, b"first"), ("b", None, b"sec\xffond")])
    (one,) = put(stream, [packed], "a")
    options = Namespace(
        shard=one.shard_id, number=RecordNumber(one.sequence_number, 1), form=RecordForm.LINE, data=True
    )
    assert show_found(stream, options) == 0
    assert capsysbinary.readouterr().out == b"sec\xffond"
    options.number = RecordNumber(one.sequence_number, 2)
    assert show_found(stream, options) == 1


@pytest.mark.parametrize("command", [["tail"], ["put", "x"], ["get", "shardId-0", "5"]])
def test_a_stream_is_needed(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUBLET_STREAM", raising=False)
    assert main(command) == 2
    assert capsys.readouterr().err == ("sublet: setting stream is required; give --stream, or set SUBLET_STREAM\n")
