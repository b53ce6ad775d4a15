"""What `doctor` checks in the lease table and beside the stream: permissions, the clock, rows, missing leases, lag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from sublet.decisions.manager.shard_sync import CreateReason, plan_shard_sync
from sublet.decisions.plurals import counted
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.shard_status import BAD_STATUSES
from sublet.decisions.status.status_rules import Status
from sublet.operate.rules.doctor import Check, DoctorRule, RuleFinding, Severity, bad, shown, warning, well
from sublet.operate.rules.examination import Known, NotKnown
from sublet.protocol.control import Control
from sublet.protocol.lease import LeaseScan, shard_id_of
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.settings import StartKind, StartPosition

SKEW_TOLERATED = timedelta(seconds=5)
"""The service's time comes in whole seconds, and is late by up to the duration of a call."""
SIGNATURE_LIFE = timedelta(minutes=5)
"""AWS refuses requests that are signed this much earlier or later ("Signature Version 4", RequestTimeTooSkewed)."""

RETENTION_WARNING, RETENTION_BAD = 0.5, 0.75
"""Shares of the retention that a shard may be behind."""


def settings(refused: str | None) -> Iterator[RuleFinding]:
    if refused is None:
        yield well("the settings in the environment are accepted")
    else:
        yield bad(refused, "Correct it; what follows was checked with the defaults of all settings.")


def stream(shards: Known[Sequence[Shard]]) -> Iterator[RuleFinding]:
    if isinstance(shards, NotKnown):
        yield bad(shards.why, "Nothing can be consumed until this is possible.")
    else:
        open_ones = sum(shard.is_open for shard in shards)
        yield well(f"{counted(open_ones, 'open shard')}, {len(shards) - open_ones:,} closed with records")


def lease_table(scan: Known[LeaseScan]) -> Iterator[RuleFinding]:
    if isinstance(scan, NotKnown):
        yield bad(scan.why, "Without its leases, no worker of the application can go on.")
    elif not scan.leases and not scan.malformed:
        yield warning("the table has no leases", "The first worker creates them: start one.")
    else:
        yield well(counted(len(scan.leases), "lease"))


def agreement(other_stream: str | None) -> Iterator[RuleFinding]:
    if other_stream is None:
        yield well("the leases are this stream's")
    else:
        yield bad(other_stream, "")


def read_permission(denied: Sequence[str]) -> Iterator[RuleFinding]:
    if denied:
        yield bad(f"these credentials lack {', '.join(denied)}", "Grant it on the stream.")
    else:
        yield well("these credentials may read the stream")


def write_permission(denied: Sequence[str] | None) -> Iterator[RuleFinding]:
    """`denied`: None if it was not asked: then there is no finding."""
    if denied:
        yield bad(f"these credentials lack {', '.join(denied)}", "Grant it to the consumer's role.")
    elif denied is not None:
        yield well("these credentials may write leases")


def roles(denied: Mapping[str, Sequence[str]] | None) -> Iterator[RuleFinding]:
    if denied is None:
        yield well("the application is not on Lambda, and --role names no process' role to ask about")
        return
    for role, actions in denied.items():
        if actions:
            yield bad(
                f"it lacks {shown(actions)}",
                "Deploy the stack again, or grant them. A permissions boundary or the organization may deny them too.",
                role,
            )
    if not any(denied.values()):
        names = " and ".join(role.rpartition("/")[2] for role in denied)
        yield well(f"{names} may do what the application needs, by IAM's simulation")


def clock(skew: timedelta, failover_time: timedelta) -> Iterator[RuleFinding]:
    """A lease is judged by how long its counter stands still, which each machine measures by its own clock, so only
    a large skew does harm: to sightings, which machines share.
    """
    seconds, off = round(skew.total_seconds()), abs(skew)
    ahead = f"this machine's clock is {abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} Kinesis' clock"
    if off >= min(failover_time / 2, SIGNATURE_LIFE):
        yield bad(
            ahead,
            f"Set it by NTP: with failover_time {failover_time.total_seconds():g} s, machines with such clocks take "
            "leases from living owners, and from five minutes on AWS refuses their requests.",
        )
    elif off > SKEW_TOLERATED:
        yield warning(ahead, "Set it by NTP.")
    else:
        yield well("as Kinesis' clock")


def rows(scan: LeaseScan) -> Iterator[RuleFinding]:
    for row in scan.malformed:
        yield bad(
            f"the row cannot be read: {row.problem}",
            "Its shard is not consumed. Correct the row, or delete it, and the shard is read from its beginning.",
            row.lease_key,
        )
    if not scan.malformed:
        yield well("every row can be read")


def unleased(scan: LeaseScan, shards: Sequence[Shard]) -> Iterator[RuleFinding]:
    """A tick creates the missing leases. The start position matters only to an application without leases."""
    if not scan.leases:
        yield well("none is expected before the application has begun")
        return
    malformed = [shard_id_of(row.lease_key) for row in scan.malformed]
    plan = plan_shard_sync(scan.leases, malformed, shards, StartPosition(StartKind.TRIM_HORIZON))
    missing = [new.lease.shard_id for new in plan.create]
    repaired = [new.lease.shard_id for new in plan.create if new.why is CreateReason.REPAIR]
    if repaired:
        yield bad(
            f"{counted(len(repaired), 'shard has', 'shards have')} no lease though the parents have ended: "
            f"{shown(repaired)}",
            "KCL never creates these leases. A lease manager of sublet creates them within a tick: is one running?",
            repaired[0],
        )
    elif missing:
        yield warning(
            f"{counted(len(missing), 'shard has', 'shards have')} no lease yet: {shown(missing)}",
            "The next tick, or KCL's next shard sync within two minutes, creates it. If it does not, no lease manager "
            "runs.",
            missing[0],
        )
    elif plan.holes:
        yield bad(
            f"{counted(len(plan.holes), 'range of hash keys has', 'ranges of hash keys have')} no unfinished lease",
            "Records with these keys are not consumed. An unreadable row, or a listing during a reshard, may be why: "
            "look again in a minute.",
        )
    else:
        yield well("every shard has a lease, or waits for its parents")


def orphaned(scan: LeaseScan, shards: Sequence[Shard]) -> Iterator[RuleFinding]:
    listed = {shard.shard_id for shard in shards}
    gone = [lease for lease in scan.leases if not lease.is_ended and lease.shard_id not in listed]
    for lease in gone:
        yield bad(
            "the stream does not list the shard of this unfinished lease",
            "If it is past retention, what was not handled is lost, and its next owner ends the lease. If the stream "
            "was created again, start a new application.",
            lease.lease_key,
        )
    if not gone:
        yield well("every unfinished lease has a shard")


ADVICE: Mapping[Status, str] = {
    Status.BEHIND: "Records arrive faster than they are handled. `sublet hot` says whether a shard is hot; otherwise "
    "make the handler faster, or add workers.",
    Status.FAILING: "`sublet status` names the handler's error, or says that reads get no answer, and the owner, whose "
    "log has the rest. `sublet peek` shows the records that wait, and `sublet skip` moves past them.",
    Status.STALLED: "The handler hangs, or checkpoints too seldom. `sublet status` names the owner, whose log has the "
    "rest. `sublet peek` shows the records that wait, and `sublet skip` moves past them.",
    Status.STOPPED: "No worker writes to the lease. `sublet workers` lists the live workers; see whether the process "
    "or the lease manager runs, and its log.",
    Status.REWOUND: "The position was moved back, and records are handled again. `sublet history` says who moved it.",
}
"""What to do about a shard with one of BAD_STATUSES."""


def progress(fleet: FleetStatus) -> Iterator[RuleFinding]:
    words = fleet.statuses
    for word in (word for word in BAD_STATUSES if word in words):
        where = shown(shard.shard_id for shard in fleet.shards if shard.status is word)
        yield bad(f"{counted(words[word], 'is', 'are')} {word}: {where}", ADVICE[word])
    unfinished = len(fleet.shards) - words.get(Status.ENDED, 0)
    if unknown := words.get(Status.UNKNOWN, 0):
        what = f"{unknown:,} of {counted(unfinished, 'shard')} UNKNOWN: `sublet status --watch` for five minutes says"
        yield RuleFinding(Severity.NOT_CHECKED, what)
    elif not any(word in words for word in BAD_STATUSES):
        yield well(f"{counted(unfinished, 'unfinished shard')}, none of them in trouble")


def retention(fleet: FleetStatus, description: StreamDescription) -> Iterator[RuleFinding]:
    kept, found = description.retention, False
    for shard in fleet.shards:
        if shard.lost is not None:
            found = True
            yield bad(
                f"records of {_hours(shard.lost)} were trimmed before they were handled",
                "They are lost. Raise the retention (IncreaseStreamRetentionPeriod) while the consumer is repaired.",
                shard.shard_id,
            )
        elif shard.lag is not None and shard.lag >= RETENTION_WARNING * kept:
            found = True
            left = (
                f"{_hours(shard.lag)} behind, with a retention of {_hours(kept)}: {_hours(kept - shard.lag)} are left"
            )
            judge = bad if shard.lag >= RETENTION_BAD * kept else warning
            then = "Raise the retention (IncreaseStreamRetentionPeriod) first, then repair the consumer."
            yield judge(left, then, shard.shard_id)
    if not found:
        worst = "" if fleet.lag is None else f"; the worst shard is {_hours(fleet.lag)} behind"
        yield well(f"{_hours(kept)}{worst}")


def orders(control: Control | None) -> Iterator[RuleFinding]:
    """Whether the control can be read. `progress` says how many shards are paused."""
    if control is None:
        yield well("no table beside the lease table keeps any, as beside a KCL's own")
    else:
        yield well("they can be read")


def _hours(duration: timedelta) -> str:
    hours = duration / timedelta(hours=1)
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.1f} h"


RULES = (
    DoctorRule(Check.SETTINGS, lambda seen: (seen.refused,), settings),
    DoctorRule(Check.STREAM, lambda seen: (seen.shards,), stream, takes_unknown=True),
    DoctorRule(Check.LEASE_TABLE, lambda seen: (seen.scan,), lease_table, takes_unknown=True),
    DoctorRule(Check.AGREEMENT, lambda seen: (seen.other_stream,), agreement),
    DoctorRule(Check.READ_PERMISSION, lambda seen: (seen.denied_reads,), read_permission),
    DoctorRule(Check.WRITE_PERMISSION, lambda seen: (seen.denied_writes,), write_permission),
    DoctorRule(Check.ROLES, lambda seen: (seen.denied_roles,), roles),
    DoctorRule(Check.CLOCK, lambda seen: (seen.skew, seen.failover_time), clock),
    DoctorRule(Check.ROWS, lambda seen: (seen.scan,), rows),
    DoctorRule(Check.UNLEASED, lambda seen: (seen.scan, seen.shards), unleased),
    DoctorRule(Check.ORPHANED, lambda seen: (seen.scan, seen.shards), orphaned),
    DoctorRule(Check.PROGRESS, lambda seen: (seen.fleet,), progress),
    DoctorRule(Check.RETENTION, lambda seen: (seen.fleet, seen.description), retention),
    DoctorRule(Check.ORDERS, lambda seen: (seen.control,), orders),
)
