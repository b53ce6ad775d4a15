"""A row and its lease: nothing is lost either way, and any broken row can be reported."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.lease import AttributeValue, Lease, MalformedRow
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.stream_key import StreamKey, in_stream, own_id, stream_key_of

from tests.property.lease_rows import (
    ATTRIBUTES,
    attribute_values,
    leases,
    leases_of_several,
    rows,
    stream_keys,
)


@given(leases())
def test_a_lease_survives_its_row(lease: Lease) -> None:
    assert decode_row(encode_row(lease)) == lease


@given(leases(), st.dictionaries(st.text("uvw", min_size=1), attribute_values, min_size=1))
def test_attributes_that_we_do_not_know_are_kept(lease: Lease, theirs: dict[str, AttributeValue]) -> None:
    row = encode_row(lease) | theirs
    decoded = decode_row(row)
    assert isinstance(decoded, Lease)
    assert encode_row(decoded) == row


@given(leases_of_several())
def test_a_lease_of_several_streams_survives_its_row(lease: Lease) -> None:
    row = encode_row(lease)
    assert decode_row(row) == lease
    assert row[attributes.STREAM_NAME]["S"] + ":" + row[attributes.SHARD_ID]["S"] == lease.lease_key
    for name in (attributes.PARENTS, attributes.CHILDREN):
        assert all(":" not in shard_id for shard_id in row.get(name, {"SS": []})["SS"])


@given(leases())
def test_a_lease_of_one_stream_has_nothing_of_several(lease: Lease) -> None:
    added = encode_row(lease).keys() - lease.other.keys()
    assert not {attributes.STREAM_NAME, attributes.SHARD_ID} & added


@given(stream_keys)
def test_a_stream_is_told_from_its_leases_keys(stream: StreamKey) -> None:
    assert StreamKey.parse(str(stream)) == stream
    assert stream_key_of(in_stream(stream, "shardId-000000000001")) == stream
    assert own_id(in_stream(stream, "shardId-000000000001")) == "shardId-000000000001"


@given(rows())
def test_a_broken_row_is_reported_with_its_key_never_raised(row: dict[str, AttributeValue]) -> None:
    decoded = decode_row(row)
    foreign = row.get(attributes.ENTITY_TYPE, {"S": "LEASE"}) != {"S": "LEASE"}
    assert (decoded is None) == (foreign and attributes.CHECKPOINT not in row)
    assert not (foreign and isinstance(decoded, Lease))
    if isinstance(decoded, MalformedRow):
        assert decoded.lease_key == row[attributes.LEASE_KEY]["S"]
        assert decoded.problem


@given(st.dictionaries(st.sampled_from(ATTRIBUTES), attribute_values))
def test_decoding_a_row_never_raises(row: dict[str, AttributeValue]) -> None:
    assert isinstance(decode_row(row), MalformedRow | None)
