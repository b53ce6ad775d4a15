"""A stored sketch is small, says the same as the one in memory, and names keys only if it may."""

from __future__ import annotations

import json
import zlib

import pytest
from msgspec.structs import replace
from sublet.decisions.load.sketch import ShardSketch
from sublet.decisions.load.sketch_json import NAMED_KEYS, STORED_KEYS, decode_sketch, encode_sketch

from tests.doubles.traffic import Traffic, sketch_of

FEW = [Traffic("a", 10, 100), Traffic("b", 1, 300, explicit=99, is_aggregated=True), Traffic(None, 1, 10)]


def test_sketch_round_trips_through_its_stored_form() -> None:
    found = sketch_of("shardId-7", FEW, dropped=3)
    assert decode_sketch(encode_sketch(found, with_names=True)) == found


def test_names_are_stored_only_if_asked_for() -> None:
    found = sketch_of("shardId-7", [Traffic("anna@example.com", 10, 100)])
    stored = encode_sketch(found, with_names=False)
    assert b"anna" not in zlib.decompress(stored)
    read = decode_sketch(stored)
    assert read == replace(found, keys=tuple(replace(key, name=None) for key in found.keys))


def test_sketch_stays_small_with_many_keys() -> None:
    traffic = [Traffic("x" * 250, 600, 1000, keys=600), Traffic("y", 100, 1000, keys=100)]
    found = sketch_of("shardId-7", traffic, seconds=90)
    assert len(found.keys) > STORED_KEYS
    assert len(encode_sketch(found, with_names=False)) < 4 * 1024
    read = decode_sketch(stored := encode_sketch(found, with_names=True))
    assert len(stored) < 10 * 1024
    assert read is not None
    assert len(read.keys) <= STORED_KEYS
    assert len([key for key in read.keys if key.name is not None]) <= NAMED_KEYS
    assert found.missed < read.missed <= found.load / (STORED_KEYS + 1)


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"buckets": [1]}, {"range": ["x", "y"]}, {"keys": [[1]]}, {"sums": []}]
)
def test_decoding_gives_none_for_a_sketch_with_a_bad_field(change: dict[str, object]) -> None:
    written = json.loads(zlib.decompress(encode_sketch(sketch_of("0", FEW), with_names=True)))
    assert decode_sketch(zlib.compress(json.dumps(written | change).encode())) is None


@pytest.mark.parametrize("data", [b"", b"no", zlib.compress(b"[1]")])
def test_decoding_gives_none_for_bytes_of_no_sketch(data: bytes) -> None:
    assert decode_sketch(data) is None


def test_empty_sketch_round_trips() -> None:
    empty = sketch_of("0", [], seconds=0)
    assert isinstance(empty, ShardSketch)
    assert decode_sketch(encode_sketch(empty, with_names=False)) == empty
