"""How long to go on while AWS refuses calls that it has accepted before: one rule, by the class of the error.

A credential that has just expired, a policy that is being corrected, a clock that is being set and an error code that
nobody has seen yet all look like a mistake in the configuration, and pass. So at the start, when nothing has worked
yet, a refusal ends the process at once: then it is most likely a mistake. Later it is repeated, with growing pauses,
and only a refusal that lasts ends the process. Leases know nothing of this: without a write within failover_time they
are lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.errors import CallFailed, FinalError, TransientError

AGAIN_AFTER = timedelta(seconds=1)
"""The first pause, since most refusals have passed by then. It doubles with each refusal."""


def may_pass(problem: BaseException) -> bool:
    """Whether waiting may help: AWS did not answer, or refused a call that it may accept later."""
    return isinstance(problem, CallFailed) and not isinstance(problem, FinalError)


@dataclass(frozen=True, slots=True)
class RefusalStreak:
    """The refusals in a row of one kind of call, or of a loop that makes several.

    has_worked  whether it has ever succeeded
    since       when the first of them came, by the steady clock; None if the last call succeeded
    """

    has_worked: bool = False
    since: datetime | None = None
    count: int = 0

    def after(self, problem: BaseException, now: datetime) -> RefusalStreak:
        """A call failed. An error that is transient anyway neither begins nor ends a row of refusals."""
        if isinstance(problem, TransientError):
            return self
        return replace(self, since=self.since or now, count=self.count + 1)

    def is_over(self, problem: BaseException, now: datetime, patience: timedelta) -> bool:
        """Whether to give up after this error, which `after` has counted."""
        if isinstance(problem, TransientError):
            return False
        is_patient = self.has_worked and may_pass(problem)
        return not is_patient or (self.since is not None and now - self.since >= patience)

    def pause(self, at_most: timedelta) -> timedelta:
        """Until the next attempt: 1, 2, 4 s and so on, up to the usual interval."""
        return min(AGAIN_AFTER * (1 << min(max(self.count - 1, 0), 30)), at_most)


NOTHING_YET = RefusalStreak()
WORKED = RefusalStreak(has_worked=True)
