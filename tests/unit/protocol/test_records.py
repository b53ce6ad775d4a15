"""Records that Kinesis would always refuse, as far as the record alone shows it."""

from __future__ import annotations

import pytest
from sublet.protocol.records import KEY_MAX, RECORD_MAX, why_not_put


@pytest.mark.parametrize(
    ("data", "key", "hash_key"),
    [
        (b"", "k", None),
        (bytes(RECORD_MAX - KEY_MAX), "k" * KEY_MAX, "0"),
        (b"data", "k", str(2**128 - 1)),
    ],
)
def test_record_within_kinesis_limits_may_be_put(data: bytes, key: str, hash_key: str | None) -> None:
    assert why_not_put(data, key, hash_key) is None


@pytest.mark.parametrize(
    ("data", "key", "hash_key", "named"),
    [
        (None, "k", None, "data is null; bytes"),
        ("text", "k", None, "data is of type str; bytes"),
        (bytes(RECORD_MAX + 1), "k", None, "data is 10485761 bytes; at most 10485760 bytes"),
        (bytes(RECORD_MAX), "ü", None, "data and partitionKey are 10485762 bytes; at most 10485760 bytes"),
        (b"data", None, None, "partitionKey is None; 1 to 256 characters"),
        (b"data", "", None, "partitionKey is ''; 1 to 256 characters"),
        (b"data", "k" * 257, None, "partitionKey is 'kkk"),
        (
            b"data",
            "k",
            "",
            "explicitHashKey is ''; a decimal number below 2**128 without leading zeros, or null",
        ),
        (b"data", "k", str(2**128), "explicitHashKey is '3402"),
        (b"data", "k", "007", "explicitHashKey is '007'"),
        (b"data", "k", "-1", "explicitHashKey is '-1'"),
        (b"data", "k", "\u0663", "explicitHashKey is '\u0663'"),
        (b"data", "k", "9" * 5_000, "explicitHashKey is '999"),
        (b"data", "k", 7, "explicitHashKey is 7"),
    ],
)
def test_record_beyond_the_limits_is_refused_with_kinesis_field_name(
    data: object, key: object, hash_key: object, named: str
) -> None:
    assert (why_not_put(data, key, hash_key) or "").startswith(named)
