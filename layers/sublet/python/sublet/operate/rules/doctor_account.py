"""What `doctor` checks in the account: the stream's mode, hot shards, quotas, alarms, and what was set aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sublet.decisions.load.resharding import Split, aws_command
from sublet.decisions.load.shard_load import read_shares, share_of_quota
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.operate.rules.doctor import Check, DoctorRule, RuleFinding, Severity, bad, warning, well
from sublet.operate.rules.doctor_leases import RULES as LEASE_RULES
from sublet.operate.rules.examination import (
    DeployedAlarm,
    Executions,
    QuotaUsage,
    RegisteredConsumer,
    Subscribers,
    ThrottledCounts,
    Volume,
)
from sublet.operate.rules.prices import fan_out
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting, batch_lines, set_aside_text
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import (
    AccountInfo,
    RecordDistribution,
    StreamDescription,
    StreamInfo,
    StreamMode,
)
from sublet.protocol.stream_key import own_id

HOT, TOO_HOT = 0.6, 0.9
"""Shares of what a shard takes in a second. They are averages over the last minutes, and peaks are higher."""

CONSUMERS = 20
"""Registered consumers of a stream, queues included; 50 with On-demand Advantage (Kinesis Developer Guide, quotas)."""
UNREAD_FOR = timedelta(hours=1)
"""A consumer that was registered this long ago and had no subscription meanwhile is reported."""
NEAR = 0.8
OPEN_EXECUTIONS = 1_000_000
"""How many open executions an account may have in a region (Step Functions Developer Guide, quotas)."""
FAILED_LATELY = timedelta(hours=1)

FORGOTTEN_NEXT = timedelta(days=1)


def mode(info: StreamInfo, description: StreamDescription) -> Iterator[RuleFinding]:
    if description.distribution is RecordDistribution.AUTO:
        yield warning(
            "Kinesis places the records itself (AUTO): records with the same key are in any shard, so they have no "
            "order",
            "KCL drops KPL aggregates of such a stream without an error; sublet does not. If the handler needs order "
            "by key, use UpdateStreamRecordDistributionStrategy.",
        )
    elif info.status != "ACTIVE":
        yield warning(f"the stream is {info.status}", "Look again when it is ACTIVE.")
    else:
        by_key = "" if description.distribution is None else ", records placed by partition key"
        kind = "on demand" if info.mode is StreamMode.ON_DEMAND else "provisioned"
        yield well(f"{kind}{by_key}")


def hot_shards(
    by_shard: Mapping[str, Volume], fleet: FleetStatus, shards: Sequence[Shard], stream: str
) -> Iterator[RuleFinding]:
    """Judges by what producers write. Without shard-level metrics it judges by what owners read, which is more than
    that while they catch up.
    """
    measured = {
        shard_id: share_of_quota(volume.bytes_per_second, volume.records_per_second)
        for shard_id, volume in by_shard.items()
    }
    shares = measured or read_shares(fleet.shards)
    listed = {shard.shard_id: shard for shard in shards}
    hot = sorted((each for each in shares.items() if each[1] >= HOT), key=lambda each: -each[1])
    for shard_id, share in hot:
        verb = "takes" if measured else "is read at"
        judge = bad if measured and share >= TOO_HOT else warning
        yield judge(f"it {verb} {share:.0%} of what a shard can take", _split(stream, listed.get(shard_id)), shard_id)
    if not shares:
        yield RuleFinding(
            Severity.NOT_CHECKED,
            "the stream has no shard-level metrics (EnableEnhancedMonitoring), and no row says how fast its shard is "
            "read",
        )
    elif not hot:
        shard_id, share = max(shares.items(), key=lambda each: each[1])
        yield well(f"the busiest shard, {shard_id}, has {share:.0%} of what a shard can take")


def _split(stream: str, shard: Shard | None) -> str:
    if shard is None or not shard.is_open:
        return "It is closed, so this passes by itself."
    starting, ending = shard.hash_key_range
    halves = aws_command(stream, Split(own_id(shard.shard_id), (starting + ending + 1) // 2))
    return (
        f"`sublet hot` says why, and where to split it; in the middle: {halves}. If one partition key is the cause, "
        "only another key helps."
    )


def throttling(throttled: ThrottledCounts) -> Iterator[RuleFinding]:
    if throttled.writes:
        yield warning(
            f"the stream refused {throttled.writes:,} records in the last hour",
            "Its producers retry, or lose them. Split the hot shards, or add shards (UpdateShardCount).",
        )
    if throttled.reads:
        yield warning(
            f"the stream refused {throttled.reads:,} polls in the last hour",
            "A shard's readers share 5 polls and 2 MB a second: it has too many applications, or a shard is hot.",
        )
    if not throttled.writes and not throttled.reads:
        yield well("no write and no poll was refused in the last hour")


def consumers(found: Sequence[RegisteredConsumer], at: datetime) -> Iterator[RuleFinding]:
    registered = len(found)
    text = f"{registered} of {CONSUMERS} (fan-out consumers and queues)"
    unread = [each for each in found if each.is_read is False and at - each.registered_at >= UNREAD_FOR]
    for each in unread:
        yield warning(
            f"the registered consumer {each.name} has had no subscription in the last hour, and costs "
            f"${fan_out(1, 0):,.0f} a month for each shard",
            f"Deregister it (aws kinesis deregister-stream-consumer --consumer-arn {each.arn}), unless its "
            "application will read again.",
            each.name,
        )
    if registered >= CONSUMERS:
        yield warning(f"{text}: no more can be registered", "Deregister unused ones; On-demand Advantage allows 50.")
    elif registered >= NEAR * CONSUMERS:
        yield warning(text, "Deregister unused ones (DeregisterStreamConsumer).")
    elif not unread:
        yield well(text)


def shard_quota(limits: AccountInfo) -> Iterator[RuleFinding]:
    text = f"{limits.open_shards:,} of {limits.shard_limit:,} open shards in this account and region"
    if limits.open_shards >= NEAR * limits.shard_limit:
        yield warning(text, "A split or a new stream may fail: ask for a higher quota (Service Quotas, Kinesis).")
    else:
        yield well(text)


def executions(found: Executions | None, at: datetime) -> Iterator[RuleFinding]:
    if found is None:
        yield well("the application has no state machine, so it is not on Lambda")
        return
    if found.failed_at is not None and at - found.failed_at <= FAILED_LATELY:
        yield warning(
            f"an execution of the lease workers failed at {found.failed_at:%Y-%m-%dT%H:%M:%SZ}",
            "Its leases wait for the next tick. Look at the execution's history (of an Express one: its log), and the "
            "lease worker's log.",
        )
    if found.running is None:
        if found.failed_at is None:
            yield well("the state machine is an Express one, and no execution failed in the last hour")
    elif found.running >= NEAR * OPEN_EXECUTIONS:
        yield bad(f"{found.running:,} are running, of {OPEN_EXECUTIONS:,} that an account may have", "Stop some.")
    else:
        yield well(f"{found.running:,} are running")


def concurrency(usage: QuotaUsage, found: Executions | None) -> Iterator[RuleFinding]:
    text = (
        f"{usage.used:,.0f} of the account's {usage.limit:,.0f} concurrent Lambda executions were used in the last hour"
    )
    if found is None or usage.share < NEAR:
        yield well(text)
    else:
        yield warning(text, "Lease workers may be throttled: ask for a higher quota, or reserve concurrency for them.")


def alarms(deployed: Sequence[DeployedAlarm], application: str, stream: str) -> Iterator[RuleFinding]:
    ours = concerning(deployed, application, stream)
    ringing = [alarm for alarm in ours if alarm.rings]
    own = concerning(deployed, application, application)  # others may watch the stream in their own way
    mute = [alarm for alarm in own if not _is_heard(alarm, deployed)]
    if mute:
        which = "none" if len(mute) == len(own) else f"only {len(own) - len(mute)}, not {mute[0].name},"
        yield warning(
            f"the application has {len(own)}, and {which} would notify anybody",
            "Deploy with an address (`sublet deploy --alarm-email`) or a topic (alarm_topic).",
        )
    for alarm in ringing:
        since = "" if alarm.since is None else f" since {alarm.since:%Y-%m-%dT%H:%M:%SZ}"
        yield bad(f"in ALARM{since}: {alarm.reason}", "Its description says what to do.", alarm.name)
    if not ours:
        yield well("none is on the application or the stream")
    elif not ringing and not mute:
        yield well(f"none of {len(ours)} of the application or the stream is in ALARM")


def subscribers(found: Mapping[str, Subscribers]) -> Iterator[RuleFinding]:
    """Of the topics that the application's alarms notify. Another action, such as a function, is not asked about."""
    shut = [arn for arn, each in found.items() if each.is_shut]
    for arn in shut:
        yield bad(
            "CloudWatch cannot publish to the alarms' topic: it is encrypted with alias/aws/sns, which is AWS' own",
            "Encrypt it with a key whose policy lets CloudWatch use it.",
            arn,
        )
    unheard = {arn: each for arn, each in found.items() if not each.confirmed}
    for arn, each in unheard.items():
        pending = f"{each.pending} are not confirmed yet" if each.pending else "there is none"
        then = "Click the link in the mail that AWS has sent." if each.pending else "Subscribe an address to it."
        yield warning(f"no subscription of the alarms' topic reaches anybody: {pending}", then, arn)
    if not unheard and not shut:
        yield well(f"of {len(found)} topics, each has one" if found else "the alarms notify no topic")


def concerning(deployed: Sequence[DeployedAlarm], application: str, stream: str) -> list[DeployedAlarm]:
    return [alarm for alarm in deployed if _concerns(alarm, application, stream)]


def topics(deployed: Sequence[DeployedAlarm]) -> list[str]:
    """The topics' ARNs, each once."""
    arns = dict.fromkeys(action for alarm in deployed for action in alarm.actions)
    return [arn for arn in arns if arn.split(":")[2:3] == ["sns"]]


def _is_heard(alarm: DeployedAlarm, deployed: Sequence[DeployedAlarm]) -> bool:
    """By itself, or by a composite alarm that names it."""
    return bool(alarm.actions) or any(other.actions and alarm.name in other.rule for other in deployed)


def _concerns(alarm: DeployedAlarm, application: str, stream: str) -> bool:
    """Whether its metrics are the application's, the stream's, or those of a function, queue or state machine named
    after it.
    """
    names = {application, stream}
    return bool(names & alarm.mentions) or any(
        text.startswith((f"{application}-", f"sublet-{application}-")) for text in (alarm.name, *alarm.mentions)
    )


def set_aside(waiting: SetAsideWaiting | None, found: SetAsideBatches | None, at: datetime) -> Iterator[RuleFinding]:
    if waiting is None:
        yield well("no failure destination was given; --on-failure asks one")
        return
    text, left = set_aside_text(waiting, at), waiting.left(at)
    if not waiting.batches:
        yield well(text)
        return
    is_last = left is not None and left <= FORGOTTEN_NEXT
    then = "`sublet redrive --dry-run` shows all of them; `sublet redrive` gives them to the handler again."
    if found is None:
        then = f"With --show-set-aside, doctor shows the first ten. {then}"
    yield RuleFinding(
        Severity.BAD if is_last else Severity.WARNING,
        text,
        then=then,
        details=() if found is None else batch_lines(found, waiting),
    )


RULES = (
    *LEASE_RULES,
    DoctorRule(Check.MODE, lambda seen: (seen.info, seen.description), mode),
    DoctorRule(Check.HOT_SHARDS, lambda seen: (seen.by_shard, seen.fleet, seen.shards, seen.stream), hot_shards),
    DoctorRule(Check.THROTTLED, lambda seen: (seen.throttled,), throttling),
    DoctorRule(Check.CONSUMERS, lambda seen: (seen.consumers, seen.at), consumers),
    DoctorRule(Check.SHARD_QUOTA, lambda seen: (seen.limits,), shard_quota),
    DoctorRule(Check.EXECUTIONS, lambda seen: (seen.executions, seen.at), executions),
    DoctorRule(Check.CONCURRENCY, lambda seen: (seen.concurrency, seen.executions), concurrency),
    DoctorRule(Check.ALARMS, lambda seen: (seen.alarms, seen.application, seen.stream), alarms),
    DoctorRule(Check.SUBSCRIBERS, lambda seen: (seen.subscribers,), subscribers),
    DoctorRule(Check.SET_ASIDE, lambda seen: (seen.set_aside, seen.set_aside_batches, seen.at), set_aside),
)
"""All that `doctor` checks."""
