"""What all lease sessions of a process share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from sublet.decisions.record_filter import RecordFilter
from sublet.engine.handler_calls import HandlerCalls
from sublet.engine.page_feed import Budget
from sublet.engine.quiet_shards import QuietShards
from sublet.engine.strays import Strays
from sublet.handler import Handler
from sublet.ports import Ports
from sublet.settings import Settings


@dataclass(frozen=True, slots=True)
class ProcessShared:
    """What all sessions of a process share, over all its windows.

    asks            what is to be stolen is asked for first
    deaggregation   held while taking aggregates apart: one lease at a time. Each MD5 lets go of the interpreter, and threads
                    that take it from each other thousands of times a second cost a fifth of all CPU
    """

    ports: Ports
    handler: Handler
    settings: Settings
    budget: Budget
    quiet: QuietShards
    calls: HandlerCalls
    wanted: RecordFilter
    strays: Strays
    deaggregation: AbstractContextManager[object]
    asks: bool = False
