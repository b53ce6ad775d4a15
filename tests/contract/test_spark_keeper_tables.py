"""A Spark query that holds leases creates missing tables, but never for a stream that does not exist."""

from __future__ import annotations

import pytest
from sublet.aws.clients import dynamodb_client, kinesis_client
from sublet.errors import StreamNotFound
from sublet.spark.keeper.keeper_thread import _ports
from sublet.spark.option_table import parse_options
from sublet.spark.options import UseOfLeases

OPTIONS = parse_options({"stream": "orders", "application": "audit", "leases": "hold"}, UseOfLeases.STREAM)


@pytest.mark.emulator
def test_tables_are_made_for_a_stream_that_is_there(moto_aws: None) -> None:
    with pytest.raises(StreamNotFound):
        _ports(OPTIONS)
    assert dynamodb_client().list_tables()["TableNames"] == []
    kinesis_client().create_stream(StreamName="orders", ShardCount=1)
    for _ in range(2):
        ports = _ports(OPTIONS)
        assert ports.table.scan().leases == ()
        assert sorted(dynamodb_client().list_tables()["TableNames"]) == ["audit", "audit-sightings"]
