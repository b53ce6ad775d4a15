"""Which faults occur in one seed's world, and how often; none begins after `calm_from`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    CRASH = "crash"
    SAVE_CUT_SHORT = "save cut short"
    PAUSE = "pause"
    CLOCK_JUMP = "clock jump"
    LOST_REQUEST = "lost request"
    LOST_RESPONSE = "lost response"
    STALE_SCAN = "stale scan"
    STALE_LISTING = "stale listing"
    INCONSISTENT_LISTING = "inconsistent listing"
    THROTTLED_POLL = "throttled poll"
    EXPIRED_ITERATOR = "expired iterator"
    EMPTY_PAGE = "empty page"
    CHILDREN_UNKNOWN = "children unknown"
    STREAM_UNAVAILABLE = "stream unavailable"
    HANDLER_FAILS = "handler fails"
    HANDLER_SLOW = "handler slow"
    HANDLER_HANGS = "handler hangs"
    HANDLER_EXITS = "handler exits"
    HANDLER_CANCELS = "handler cancels"
    HANDLER_LEAKS = "handler leaks"
    ODD_ERROR = "odd error"
    EXECUTION_ABORTED = "execution aborted"
    DESTROYED = "destroyed"
    DUPLICATED_ITEM = "duplicated item"
    LOST_ANSWER = "lost answer"
    MISSED_TICK = "missed tick"
    LOST_PROMPT = "lost prompt"
    OVERLAPPING_TICK = "overlapping tick"
    ROW_DELETED = "row deleted"
    ROW_GONE_BAD = "row gone bad"
    CHECKPOINT_MOVED = "checkpoint moved"
    OTHER_STREAM = "other stream"


_HIGHEST = {
    Fault.CRASH: 0.004,
    Fault.SAVE_CUT_SHORT: 0.1,
    Fault.PAUSE: 0.004,
    Fault.CLOCK_JUMP: 0.002,
    Fault.LOST_REQUEST: 0.05,
    Fault.LOST_RESPONSE: 0.08,
    Fault.STALE_SCAN: 0.5,
    Fault.STALE_LISTING: 1.0,
    Fault.INCONSISTENT_LISTING: 1.0,
    Fault.THROTTLED_POLL: 0.1,
    Fault.EXPIRED_ITERATOR: 0.05,
    Fault.EMPTY_PAGE: 0.3,
    Fault.CHILDREN_UNKNOWN: 0.5,
    Fault.STREAM_UNAVAILABLE: 0.02,
    Fault.HANDLER_FAILS: 0.2,
    Fault.HANDLER_SLOW: 0.1,
    Fault.HANDLER_HANGS: 0.01,
    Fault.HANDLER_EXITS: 0.02,
    Fault.HANDLER_CANCELS: 0.05,
    Fault.HANDLER_LEAKS: 0.02,
    Fault.ODD_ERROR: 0.005,
    Fault.EXECUTION_ABORTED: 0.1,
    Fault.DESTROYED: 0.05,
    Fault.DUPLICATED_ITEM: 0.1,
    Fault.LOST_ANSWER: 0.1,
    Fault.MISSED_TICK: 0.3,
    Fault.LOST_PROMPT: 0.5,
    Fault.OVERLAPPING_TICK: 0.5,
    Fault.ROW_DELETED: 0.3,
    Fault.ROW_GONE_BAD: 0.3,
    Fault.CHECKPOINT_MOVED: 0.5,
    Fault.OTHER_STREAM: 0.3,
}
"""The highest probability of each fault, at each opportunity."""


_OFTEN = frozenset({Fault.STALE_LISTING, Fault.INCONSISTENT_LISTING})
"""Faults with few opportunities, which are not made rarer still."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Some faults are absent from a seed altogether, so that rare ones also occur in long and otherwise quiet runs."""

    rates: dict[Fault, float]
    calm_from: int
    chance: Random

    def strikes(self, fault: Fault, now_us: int) -> bool:
        rate = self.rates.get(fault, 0.0)
        return rate > 0 and now_us < self.calm_from and self.chance.random() < rate


def draw_weather(chance: Random, calm_from: int, without: frozenset[Fault]) -> Weather:
    present = chance.random()
    rates = {
        fault: highest * chance.random() ** (1 if fault in _OFTEN else 2)
        for fault, highest in _HIGHEST.items()
        if chance.random() < (0.8 if fault in _OFTEN else present) and fault not in without
    }
    return Weather({fault: rate for fault, rate in rates.items() if fault not in without}, calm_from, chance)
