"""When a shard is polled next, and for how many records. `polls` in given: the answers, each at the time that the
previous one led to, or `wait` later; `bytes`: of each record.
"""

from datetime import timedelta

from sublet.decisions.session.pace import Pace, next_poll_at, records_to_ask_for, throttled_until
from sublet.protocol.records import Page, StreamRecord

from tests.scenarios.story import NOW, Story, settings

RECORD = StreamRecord("1", b"", "key", NOW)
LATER = {"never": 0, "most": (1 << 10) - 1}


class Drawn:
    def __init__(self, number: int) -> None:
        self.number = number

    def shuffle(self, x: list[object], /) -> None:
        pass

    def getrandbits(self, k: int, /) -> int:
        return self.number & ((1 << k) - 1)


def test_pace(story: Story) -> None:
    chosen, pace, now = settings(story.given), Pace(), NOW
    chance = Drawn(LATER[story.given.get("later", "never")])
    waits, asked = [], [records_to_ask_for(pace, chosen)]
    for poll in story.given["polls"]:
        now += timedelta(seconds=poll.get("wait", 0))
        if poll.get("throttled"):
            pace = pace.throttled(chosen)
            following = throttled_until(now, pace.refusals)
        else:
            records = poll.get("records", 0)
            page = Page((RECORD,) * records, records * poll.get("bytes", 0), poll.get("behind", 0))
            pace = pace.polled(page, now, chosen)
            following = next_poll_at(pace, now, chance, chosen)
        waits.append(round((following - now).total_seconds(), 3))
        asked.append(records_to_ask_for(pace, chosen))
        now = following
    found = {"waits": waits}
    story.check(found | {"asked": asked} if chosen.poll_bytes else found)
