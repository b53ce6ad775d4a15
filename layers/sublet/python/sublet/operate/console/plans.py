"""Changes that an operator asks for. Each is planned, then shown, and carried out at most once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Lock

from msgspec import structs

from sublet.errors import SubletError
from sublet.operate.console.change_audit import ChangeAudit
from sublet.operate.rules.change_audit import AuditEntry
from sublet.ports import Clock, Log, Tasks

KEPT = 100
LASTS = timedelta(minutes=10)
"""How long a plan may be carried out; later it may no longer be true."""


class PlanState(StrEnum):
    PLANNING = "planning"
    READY = "ready"
    REFUSED = "refused"
    """The change cannot be planned. Nothing has changed."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """The change stopped with an error, perhaps in the middle."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One line of a plan. `effect`: one word, such as `repeats`; `extent`: how much that concerns."""

    shard_id: str
    effect: str
    before: str
    then: str
    owner: str | None = None
    note: str = ""
    extent: str = ""


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A planned change.

    rows        what it changes; empty if nothing
    counted     how many rows have which effect, in words
    warning     what an operator must know first; may be empty
    undone_by   the command that undoes it; empty if none does
    needs_name  the operator must type the application's name
    carry_out   makes the change and returns what was done; raises SubletError
    progress    returns how many steps are done so far
    meaning     the effect of all rows together, a sentence each
    steps       how many steps there are, if that is not the number of rows
    """

    rows: tuple[PlanRow, ...]
    counted: str
    carry_out: Callable[[], str]
    progress: Callable[[], int]
    warning: str = ""
    undone_by: str = ""
    needs_name: bool = False
    meaning: tuple[str, ...] = ()
    steps: Callable[[], int] | None = None

    @property
    def total(self) -> int:
        return len(self.rows) if self.steps is None else self.steps()


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A change and how far it has come. `command`: does the same in a terminal. `tab`: the page on which the operator
    asked for it. `by`: who did; what it keeps names them. `said`: the outcome, or why it was refused.
    """

    number: str
    application: str
    by: str
    tab: str
    what: str
    command: str
    made_at: datetime
    state: PlanState = PlanState.PLANNING
    prepared: PreparedChange | None = None
    said: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.state in (PlanState.PLANNING, PlanState.RUNNING)


class ChangePlans:
    """The newest KEPT plans. Thread-safe."""

    def __init__(self, clock: Clock, tasks: Tasks, log: Log, secret: Callable[[], str]) -> None:
        self._clock = clock
        self._tasks = tasks
        self._log = log
        self._secret = secret
        self._lock = Lock()
        self._plans: dict[str, ChangePlan] = {}

    def get(self, application: str, number: str) -> ChangePlan | None:
        with self._lock:
            found = self._plans.get(number)
        return found if found is not None and found.application == application else None

    def begin(
        self, application: str, by: str, tab: str, what: str, command: str, prepare: Callable[[], PreparedChange]
    ) -> ChangePlan:
        """Starts planning in another task, and returns at once. `prepare` may raise SubletError."""
        plan = ChangePlan(self._secret(), application, by, tab, what, command, self._clock.now())
        with self._lock:
            self._plans[plan.number] = plan
            for number in list(self._plans)[:-KEPT]:
                del self._plans[number]
        self._tasks.spawn(lambda: self._prepare(plan, prepare))
        return plan

    def execute(self, plan: ChangePlan, who: str, done: Callable[[], None], audit: ChangeAudit) -> str:
        """Starts the change. Returns why it cannot start, or an empty text. Calls `done` at its end, whatever the
        outcome. A change that the audit cannot keep is not made.
        """
        with self._lock:
            now = self._plans.get(plan.number)
            if now is None or now.state is not PlanState.READY or now.prepared is None:
                return "This plan is not ready, or has already been carried out."
            if self._clock.now() - now.made_at > LASTS:
                return "This plan is too old. Make a new plan."
            running = replace(now, state=PlanState.RUNNING)
            self._plans[plan.number] = running
        entry = AuditEntry(plan.number, self._clock.now(), who, plan.what, plan.command)
        try:
            audit.keep(entry)
        except SubletError as problem:
            self._keep(replace(running, state=PlanState.READY))
            return f"Nothing was changed, because the change cannot be written down: {problem}"
        self._log.info("console change", application=plan.application, what=plan.what, who=who, command=plan.command)
        self._tasks.spawn(lambda: self._run(running, entry, done, audit))
        return ""

    def _prepare(self, plan: ChangePlan, prepare: Callable[[], PreparedChange]) -> None:
        try:
            ready = replace(plan, state=PlanState.READY, prepared=prepare())
        except SubletError as refused:
            ready = replace(plan, state=PlanState.REFUSED, said=str(refused))
        except Exception as problem:  # noqa: BLE001 - the page says what happened
            kind = type(problem).__name__
            ready = replace(plan, state=PlanState.REFUSED, said=f"an error of sublet: {kind}")
            self._log.error("console plan failed", application=plan.application, what=plan.what, problem=kind)
        self._keep(ready)

    def _run(self, plan: ChangePlan, entry: AuditEntry, done: Callable[[], None], audit: ChangeAudit) -> None:
        assert plan.prepared is not None
        ended = replace(plan, state=PlanState.FAILED, said="It ended unexpectedly: see the console's log.")
        try:
            ended = replace(plan, state=PlanState.DONE, said=plan.prepared.carry_out())
        except SubletError as refused:
            ended = replace(plan, state=PlanState.FAILED, said=str(refused))
        finally:
            self._keep(ended)
            self._log.info(
                "console change ended",
                application=plan.application,
                what=plan.what,
                who=entry.by,
                state=ended.state.value,
                said=ended.said,
            )
            self._audit_end(entry, ended, audit)
            done()

    def _audit_end(self, entry: AuditEntry, ended: ChangePlan, audit: ChangeAudit) -> None:
        try:
            audit.keep(structs.replace(entry, state=ended.state.value, said=ended.said))
        except SubletError as problem:
            self._log.warning("console audit not written", application=ended.application, problem=str(problem))

    def _keep(self, plan: ChangePlan) -> None:
        with self._lock:
            if plan.number in self._plans:
                self._plans[plan.number] = plan
