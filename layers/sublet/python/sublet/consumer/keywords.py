"""What may be given to a Consumer by name, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sublet.decisions.pull_events import Event
from sublet.handler import UserHandler
from sublet.settings.keywords import ProcessKeywords


class PulledKeywords(ProcessKeywords, total=False):
    """Of a consumer that is pulled from."""

    ack_wait: timedelta | float | None
    max_ack_pending: int | None
    on_event: Callable[[Event], object] | None
    until_signalled: bool


class ConsumerKeywords(PulledKeywords, total=False):
    """Of one that may have a handler, too."""

    handler: UserHandler | None
