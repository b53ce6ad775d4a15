"""Whether an aggregate out of its shard's range may be dropped. Times are seconds before now: `arrived` of the record,
`at` of each description in turn, which says what places records; `auto_seen` by others of the application; `retention`
in hours.
"""

from datetime import timedelta

from sublet.decisions.session.out_of_range_aggregates import why_kept
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, RecordDistribution, StreamDescription

from tests.scenarios.story import NOW, Story

STREAM = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", NOW)


def test_out_of_range(story: Story) -> None:
    given = story.given
    known = Placement()
    for told in given.get("descriptions", ()):
        distribution = None if told["says"] is None else RecordDistribution(told["says"])
        retention = timedelta(hours=given.get("retention", 24))
        known = known.with_description(
            StreamDescription(STREAM, NOW - timedelta(seconds=told["at"]), retention, distribution)
        )
    if "auto_seen" in given:
        known = known.with_auto_seen(NOW - timedelta(seconds=given["auto_seen"]))
    why = why_kept(NOW - timedelta(seconds=given["arrived"]), known)
    story.check({"drops": why is None} | ({} if why is None else {"why": why.value}))
