"""Changes that an operator has asked for. Each is planned first, then shown, and carried out once at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Lock

from sublet.errors import SubletError
from sublet.ports import Clock, Log, Tasks

KEPT = 100
LASTS = timedelta(minutes=10)
"""An older plan says nothing about the present."""


class PlanState(StrEnum):
    PLANNING = "planning"
    READY = "ready"
    REFUSED = "refused"
    """It cannot be planned; nothing has changed."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """It has stopped with an error, perhaps in the middle."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One line of a plan. `effect`: one word; `extent`: of how much."""

    shard_id: str
    effect: str
    before: str
    then: str
    owner: str | None = None
    note: str = ""
    extent: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change that has been planned.

    rows       what it changes; empty: nothing
    counted    how many rows have which effect, in words
    warning    what an operator has to know before; empty if nothing
    undone_by  the command that takes it back; empty if nothing does
    needs_name the application's name is asked for
    carry_out  does it, and says what was done; raises SubletError
    progress   how many rows are done meanwhile
    meaning    what all rows together come to, a sentence each
    steps      how many there are to do, if that is not the number of rows
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
class Plan:
    """`command`: does the same in a terminal. `tab`: the page on which the operator asked for it. `said`: the outcome, or why
    it was refused.
    """

    number: str
    application: str
    tab: str
    what: str
    command: str
    made_at: datetime
    state: PlanState = PlanState.PLANNING
    prepared: Prepared | None = None
    said: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.state in (PlanState.PLANNING, PlanState.RUNNING)


class Plans:
    """Safe for threads. Only the newest KEPT are remembered."""

    def __init__(self, clock: Clock, tasks: Tasks, log: Log, secret: Callable[[], str]) -> None:
        self._clock = clock
        self._tasks = tasks
        self._log = log
        self._secret = secret
        self._lock = Lock()
        self._plans: dict[str, Plan] = {}

    def get(self, application: str, number: str) -> Plan | None:
        with self._lock:
            found = self._plans.get(number)
        return found if found is not None and found.application == application else None

    def begin(
        self, application: str, tab: str, what: str, command: str, prepare: Callable[[], Prepared]
    ) -> Plan:
        """Returns at once; the plan is made in another task. `prepare` may raise SubletError."""
        plan = Plan(self._secret(), application, tab, what, command, self._clock.now())
        with self._lock:
            self._plans[plan.number] = plan
            for number in list(self._plans)[:-KEPT]:
                del self._plans[number]
        self._tasks.spawn(lambda: self._prepare(plan, prepare))
        return plan

    def execute(self, plan: Plan, who: str, done: Callable[[], None]) -> str:
        """Starts the change. Returns why it cannot start, or an empty text. `done` is called at its end, whatever the outcome."""
        with self._lock:
            now = self._plans.get(plan.number)
            if now is None or now.state is not PlanState.READY or now.prepared is None:
                return "This plan is not ready, or has been carried out."
            if self._clock.now() - now.made_at > LASTS:
                return "This plan is too old: plan again."
            running = replace(now, state=PlanState.RUNNING)
            self._plans[plan.number] = running
        self._log.info(
            "console change", application=plan.application, what=plan.what, who=who, command=plan.command
        )
        self._tasks.spawn(lambda: self._run(running, who, done))
        return ""

    def _prepare(self, plan: Plan, prepare: Callable[[], Prepared]) -> None:
        try:
            ready = replace(plan, state=PlanState.READY, prepared=prepare())
        except SubletError as refused:
            ready = replace(plan, state=PlanState.REFUSED, said=str(refused))
        except Exception as problem:  # noqa: BLE001 - the page says what happened
            kind = type(problem).__name__
            ready = replace(plan, state=PlanState.REFUSED, said=f"an error of sublet: {kind}")
            self._log.error("console plan failed", application=plan.application, what=plan.what, problem=kind)
        self._keep(ready)

    def _run(self, plan: Plan, who: str, done: Callable[[], None]) -> None:
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
                who=who,
                state=ended.state.value,
                said=ended.said,
            )
            done()

    def _keep(self, plan: Plan) -> None:
        with self._lock:
            if plan.number in self._plans:
                self._plans[plan.number] = plan
