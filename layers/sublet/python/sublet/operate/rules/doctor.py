"""What is wrong with an application, where, and what to do about it: the findings of `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from sublet.operate.rules.examination import Examination, NotKnown


class Severity(StrEnum):
    """Worst first."""

    BAD = "bad"
    """Records are lost or late, or soon will be, or nothing can be read."""
    WARNING = "warning"
    """It works now, and may stop."""
    NOT_CHECKED = "not checked"
    WELL = "well"


class Check(StrEnum):
    """Everything that is checked, in the order in which it is shown."""

    SETTINGS = "settings"
    STREAM = "stream"
    LEASE_TABLE = "lease table"
    AGREEMENT = "table and stream"
    READ_PERMISSION = "permission to read"
    WRITE_PERMISSION = "permission to write"
    ROLES = "permissions of roles"
    CLOCK = "clock"
    ROWS = "rows"
    UNLEASED = "shards without a lease"
    ORPHANED = "leases without a shard"
    PROGRESS = "progress"
    RETENTION = "retention"
    ORDERS = "operators' orders"
    MODE = "mode and distribution"
    HOT_SHARDS = "hot shards"
    THROTTLED = "throttling"
    CONSUMERS = "registered consumers"
    SHARD_QUOTA = "shard quota"
    EXECUTIONS = "executions"
    CONCURRENCY = "concurrency"
    ALARMS = "alarms"
    SUBSCRIBERS = "alarms' subscribers"
    SET_ASIDE = "set aside"


class Finding(Struct, frozen=True):
    """What was found, and what to do (`then`), in a sentence each. `where`: a shard, a table or an alarm; empty: the
    application. `stream`: in an application of several, the one that is meant; empty: all. `details`: lines below it.
    """

    check: Check
    severity: Severity
    what: str
    where: str = ""
    then: str = ""
    stream: str = ""
    details: tuple[str, ...] = ()


class RuleFinding(Struct, frozen=True):
    """A finding of one rule, to which its check is added."""

    severity: Severity
    what: str
    where: str = ""
    then: str = ""
    details: tuple[str, ...] = ()


class DoctorRule(Struct, frozen=True):
    """`judge` is called with what `needs` returns, if all of it is known, or `takes_unknown`."""

    check: Check
    needs: Callable[[Examination], Sequence[object]]
    judge: Callable[..., Iterable[RuleFinding]]
    takes_unknown: bool = False


def findings(examined: Examination, rules: Sequence[DoctorRule]) -> tuple[Finding, ...]:
    """The findings of every rule, in order. A question without an answer is a finding of its own, and hides no other
    finding. If several questions have no answer for the same reason, only the first finding gives it, and the others
    name that check.
    """
    said: dict[str, Check] = {}
    return tuple(finding for rule in rules for finding in _of(rule, examined, said))


def findings_of_each(examined: Sequence[Examination], rules: Sequence[DoctorRule]) -> tuple[Finding, ...]:
    """Returns the findings for each stream of an application, in the order of the rules. A finding that is the same for
    every stream is given once, for all of them.
    """
    if len(examined) == 1:
        return findings(examined[0], rules)
    found: list[Finding] = []
    said: list[dict[str, Check]] = [{} for _ in examined]
    for rule in rules:
        each = [list(_of(rule, one, known)) for one, known in zip(examined, said, strict=True)]
        shared = [finding for finding in each[0] if all(finding in others for others in each)]
        found += shared
        found += [
            replace(finding, stream=one.stream)
            for one, own in zip(examined, each, strict=True)
            for finding in own
            if finding not in shared
        ]
    return tuple(found)


def _of(rule: DoctorRule, examined: Examination, said: dict[str, Check]) -> Iterator[Finding]:
    """The findings of one rule. `said`: which check has given each reason so far; this adds its own."""
    values = rule.needs(examined)
    unknown = dict.fromkeys(value.why for value in values if isinstance(value, NotKnown))
    if unknown and not rule.takes_unknown:
        reasons = dict.fromkeys(f'see "{said[why]}"' if why in said else why for why in unknown)
        said.update((why, rule.check) for why in unknown if why not in said)
        yield Finding(rule.check, Severity.NOT_CHECKED, "; ".join(reasons))
        return
    for each in rule.judge(*values):
        said.setdefault(each.what, rule.check)
        yield Finding(rule.check, each.severity, each.what, each.where, each.then, details=each.details)


def well(what: str) -> RuleFinding:
    return RuleFinding(Severity.WELL, what)


def bad(what: str, then: str, where: str = "") -> RuleFinding:
    return RuleFinding(Severity.BAD, what, where, then)


def warning(what: str, then: str, where: str = "") -> RuleFinding:
    return RuleFinding(Severity.WARNING, what, where, then)


def shown(ids: Iterable[str], most: int = 5) -> str:
    """The first few of many names."""
    names = list(ids)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
