"""Where each stream of an application starts, by the part of `streams` that names it."""

from __future__ import annotations

import pytest
from sublet.decisions.streams.chosen_streams import start_of
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Settings, StartKind, StreamChoice


@pytest.mark.parametrize(
    ("streams", "kind"),
    [
        ("orders@LATEST", StartKind.LATEST),
        ("audit-*@LATEST,orders", StartKind.TRIM_HORIZON),
        ("audit-*@LATEST", StartKind.TRIM_HORIZON),
        ("tag:team=billing@LATEST", StartKind.LATEST),
    ],
)
def test_a_stream_starts_where_the_first_part_that_names_it_says(streams: str, kind: StartKind) -> None:
    settings = Settings(application="audit", streams=StreamChoice.parse(streams))
    assert start_of(StreamKey("000000000000", "orders", 1), settings).kind is kind
