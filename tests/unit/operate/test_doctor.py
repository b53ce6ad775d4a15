"""`doctor`'s look and its findings, over memory: each fault is found and said, and a refused question hides no
other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace as replaced
from sublet.decisions.status.fleet_status import FleetStatus
from sublet.decisions.status.status_rules import Status
from sublet.errors import ControlUnreadable, LeaseTableAccessDenied, LeaseTableNotFound, SubletError
from sublet.operate.doctor import Doctor
from sublet.operate.memory_inspection import MemoryInspection
from sublet.operate.rules.doctor import Check, Finding, Severity, findings
from sublet.operate.rules.doctor_account import RULES, executions, shard_quota, throttling
from sublet.operate.rules.examination import (
    DeployedAlarm,
    Examination,
    Executions,
    NotKnown,
    QuotaUsage,
    RegisteredConsumer,
    Subscribers,
    ThrottledCounts,
    Volume,
)
from sublet.operate.rules.role_needs import DeployedRoles
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting, batch_text
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.control import Control
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import MalformedRow
from sublet.protocol.stream_info import AccountInfo, RecordDistribution
from sublet.testing.memory import MemoryAccount

from tests.contract.test_failure_destination import batch
from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld

AT = datetime(2026, 11, 22, 8, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"


CONSUMERS = [
    RegisteredConsumer(f"consumer-{number}", "arn", datetime(2026, 1, 1, tzinfo=UTC), True) for number in range(20)
]
MEASURED = MemoryInspection(by_shard={SHARD: Volume(10, 1)})


def known_world() -> EngineWorld:
    """Its lease managers have kept which stream the leases are of."""
    world = EngineWorld(NO_WAITING)
    assert world.sightings.adopt(world.shards.describe().identity, None)
    return world


def examined_world(world: EngineWorld | None = None, **given: Any) -> Examination:
    world = world or known_world()
    account = MemoryAccount(clock=world.clock, tasks=world.ports.tasks)
    account.create("events", 1)
    settings = replace(NO_WAITING, on_failure=given.pop("on_failure", None))
    return Doctor(world.ports, settings, account, given.pop("inspection", MEASURED), **given).examine()


def found(examined: Examination) -> dict[Check, list[Finding]]:
    by_check: dict[Check, list[Finding]] = {check: [] for check in Check}
    for each in findings(examined, RULES):
        by_check[each.check].append(each)
    return by_check


def severities(examined: Examination) -> dict[Check, Severity]:
    """The findings that are not well; every other check has exactly one finding that is."""
    for check, some in found(examined).items():
        is_not_asked = check is Check.WRITE_PERMISSION and examined.denied_writes is None
        assert bool(some) is not is_not_asked, f"{check} says nothing, or what was not asked"
    return {each.check: each.severity for each in findings(examined, RULES) if each.severity is not Severity.WELL}


def test_a_healthy_application_has_a_good_word_from_every_check() -> None:
    assert severities(examined_world()) == {}


def test_a_sentence_that_several_checks_share_is_said_once() -> None:
    missing = "there is no lease table orders"
    gone = NotKnown(missing)
    some = findings(replace(examined_world(), scan=gone, fleet=gone, other_stream=gone), RULES)
    assert [each.check for each in some if missing in each.what] == [Check.LEASE_TABLE]
    assert {each.what for each in some if each.severity is Severity.NOT_CHECKED} == {'see "lease table"'}


def test_every_finding_that_is_not_well_says_what_to_do() -> None:
    examined = everything_wrong()
    for each in findings(examined, RULES):
        if each.severity in (Severity.BAD, Severity.WARNING) and each.check is not Check.AGREEMENT:
            assert each.then.endswith((".", "?")), each


def fleet_with(examined: Examination, **changes: Any) -> FleetStatus:
    """The only shard changed."""
    assert isinstance(examined.fleet, FleetStatus)
    (shard,) = examined.fleet.shards
    return replace(examined.fleet, shards=(replace(shard, **changes),))


@pytest.mark.parametrize(
    ("status", "command"),
    [
        (Status.STOPPED, "sublet workers"),
        (Status.FAILING, "sublet skip"),
        (Status.STALLED, "sublet skip"),
        (Status.REWOUND, "sublet history"),
        (Status.BEHIND, "sublet hot"),
    ],
)
def test_doctor_names_a_command_for_each_bad_status(status: Status, command: str) -> None:
    healthy = examined_world()
    some = found(replace(healthy, fleet=fleet_with(healthy, status=status)))
    (said,) = some[Check.PROGRESS]
    assert said.severity is Severity.BAD
    assert f"`{command}`" in said.then


@pytest.mark.parametrize(
    ("problem", "severity", "says"),
    [
        (LeaseTableNotFound("no table orders-sightings"), Severity.WELL, "no table beside the lease table"),
        (LeaseTableAccessDenied("not allowed"), Severity.NOT_CHECKED, "not allowed"),
        (ControlUnreadable("of a later version"), Severity.NOT_CHECKED, "of a later version"),
    ],
)
def test_orders_that_cannot_be_read_are_a_finding_and_no_line_in_the_log(
    problem: SubletError, severity: Severity, says: str
) -> None:
    class Unreadable:
        def control(self) -> Control:
            raise problem

        @property
        def answered_at(self) -> None:
            return None

        def keep_control(self, control: Control) -> bool:
            raise AssertionError(f"doctor changes nothing, and never writes {control}")

        def replace_unreadable(self) -> None:
            raise AssertionError("doctor changes nothing")

    world = known_world()
    world.control = Unreadable()  # type: ignore[assignment]
    said = len(world.log.lines)
    examined = examined_world(world)
    (finding,) = found(examined)[Check.ORDERS]
    assert (finding.severity, finding.what.startswith(says)) == (severity, True)
    assert isinstance(examined.fleet, FleetStatus)
    assert world.log.lines[said:] == []


def test_shards_of_which_nothing_is_known_are_not_called_untroubled() -> None:
    examined = examined_world()
    examined = replace(examined, fleet=fleet_with(examined, status=Status.UNKNOWN))
    (finding,) = found(examined)[Check.PROGRESS]
    assert finding.severity is Severity.NOT_CHECKED
    assert finding.what == "1 of 1 shard UNKNOWN: `sublet status --watch` for five minutes says"


def test_records_that_were_trimmed_unhandled_are_bad() -> None:
    examined = examined_world()
    examined = replace(examined, fleet=fleet_with(examined, lost=HOUR))
    assert texts(examined, Check.RETENTION) == ["records of 1.0 h were trimmed before they were handled"]


def everything_wrong() -> Examination:
    healthy = examined_world()
    scan, shards, description, info = healthy.scan, healthy.shards, healthy.description, healthy.info
    assert not isinstance(scan, NotKnown)
    assert not isinstance(shards, NotKnown)
    assert not isinstance(description, NotKnown)
    assert not isinstance(info, NotKnown)
    return replace(
        healthy,
        refused="setting window = 'x'",
        scan=replaced(scan, malformed=(MalformedRow("shardId-7", "no checkpoint"),)),
        skew=timedelta(minutes=6),
        other_stream="the leases belong to another stream",
        fleet=fleet_with(healthy, status=Status.STOPPED, lag=20 * HOUR),
        by_shard={SHARD: Volume(1024**2 * 0.95, 10)},
        throttled=ThrottledCounts(7, 8),
        description=replaced(description, distribution=RecordDistribution.AUTO),
        denied_reads=("kinesis:GetRecords",),
        denied_writes=("dynamodb:PutItem on orders",),
        denied_roles={WORKER: ("kinesis:GetRecords on orders",)},
        alarms=(DeployedAlarm("orders-ShardUnread", healthy.at, "one point", actions=(TOPIC,)),),
        subscribers={TOPIC: Subscribers(0, 1)},
        consumers=CONSUMERS,
        executions=Executions(3, healthy.at - timedelta(minutes=5)),
        concurrency=QuotaUsage(950, 1000),
        set_aside=SetAsideWaiting(4, healthy.at - 13.5 * DAY, healthy.at + 0.5 * DAY),
    )


def test_doctor_gives_each_check_its_severity() -> None:
    warnings = {
        Check.THROTTLED,
        Check.MODE,
        Check.CONSUMERS,
        Check.EXECUTIONS,
        Check.CONCURRENCY,
        Check.SUBSCRIBERS,
    }
    spared = {
        Check.STREAM,
        Check.LEASE_TABLE,
        Check.UNLEASED,
        Check.ORPHANED,
        Check.ORDERS,
        Check.SHARD_QUOTA,
    }
    expected = {
        check: Severity.WARNING if check in warnings else Severity.BAD for check in Check if check not in spared
    }
    assert severities(everything_wrong()) == expected


@pytest.mark.parametrize(
    ("method", "check"),
    [
        ("alarms", Check.ALARMS),
        ("subscribers", Check.SUBSCRIBERS),
        ("consumers", Check.CONSUMERS),
        ("throttled", Check.THROTTLED),
        ("incoming_by_shard", Check.HOT_SHARDS),
        ("denied_reads", Check.READ_PERMISSION),
        ("deployed_roles", Check.ROLES),
        ("set_aside", Check.SET_ASIDE),
    ],
)
def test_a_refused_question_is_named_and_hides_no_other(method: str, check: Check) -> None:
    heard = DeployedAlarm("orders-Lagging", None, "", rings=False, actions=(TOPIC,))
    inspection = MemoryInspection(refuses=frozenset({method}), registered=CONSUMERS, deployed_alarms=[heard])
    examined = examined_world(inspection=inspection, on_failure=QUEUE)
    not_well = severities(examined)
    assert not_well[check] is Severity.NOT_CHECKED
    (finding,) = found(examined)[check]
    assert finding.what.startswith(f"these credentials lack the permission for {method}")
    assert check is Check.CONSUMERS or not_well[Check.CONSUMERS] is Severity.WARNING


MANAGER, WORKER = (f"arn:aws:iam::123456789012:role/orders-{name}" for name in ("manager", "worker"))
DEPLOYED = DeployedRoles("arn:aws:states:eu-west-1:123456789012:stateMachine:orders-lease-workers", MANAGER, WORKER)


def of_roles(lacks: dict[str, frozenset[str]], **given: Any) -> list[Finding]:
    inspection = MemoryInspection(by_shard=MEASURED.by_shard, roles=DEPLOYED, roles_lack=lacks)
    return found(examined_world(inspection=inspection, **given))[Check.ROLES]


def test_a_deployed_role_that_lacks_an_action_is_bad_and_named_with_the_resource() -> None:
    """Each is asked for what its own function does: the worker never scans."""
    (finding,) = of_roles({WORKER: frozenset({"kinesis:GetRecords", "dynamodb:Scan", "states:StartExecution"})})
    assert (finding.severity, finding.where) == (Severity.BAD, WORKER)
    assert finding.what.startswith("it lacks kinesis:GetRecords on arn:")
    assert finding.what.endswith(":stream/events")
    (finding,) = of_roles({MANAGER: frozenset({"states:StartExecution", "sqs:SendMessage"})}, on_failure=QUEUE)
    assert finding.what == f"it lacks states:StartExecution on {DEPLOYED.state_machine}"


def test_the_worker_s_role_sets_records_aside() -> None:
    (finding,) = of_roles({WORKER: frozenset({"sqs:SendMessage"})}, on_failure=QUEUE)
    assert finding.what == f"it lacks sqs:SendMessage on {QUEUE}"
    bucket = "arn:aws:s3:::given-up/aside"
    (finding,) = of_roles({WORKER: frozenset({"s3:PutObject"})}, on_failure=bucket)
    assert finding.what == f"it lacks s3:PutObject on {bucket}/{NO_WAITING.application}/*"


def test_a_function_that_sends_metrics_is_asked_for_the_permission() -> None:
    lacks = {WORKER: frozenset({"cloudwatch:PutMetricData"})}
    sending = MemoryInspection(
        by_shard=MEASURED.by_shard, roles=DEPLOYED._replace(sends_metrics=True), roles_lack=lacks
    )
    (finding,) = found(examined_world(inspection=sending))[Check.ROLES]
    assert (finding.severity, finding.where) == (Severity.BAD, WORKER)
    assert finding.what == "it lacks cloudwatch:PutMetricData on *"
    (finding,) = of_roles(lacks, to_cloudwatch=True)
    assert finding.severity is Severity.WELL, "the functions' own variables count"


@pytest.mark.parametrize("to_cloudwatch", [True, False])
def test_a_process_role_is_asked_to_send_metrics_if_the_process_does(to_cloudwatch: bool) -> None:
    role = "arn:aws:iam::123456789012:role/orders"
    lacks = {role: frozenset({"cloudwatch:PutMetricData"})}
    (finding,) = of_roles(lacks, role=role, to_cloudwatch=to_cloudwatch)
    assert (finding.severity is Severity.BAD) is to_cloudwatch


def test_roles_that_lack_nothing_are_named() -> None:
    (finding,) = of_roles({})
    assert finding.what == "orders-manager and orders-worker may do what the application needs, by IAM's simulation"


def test_a_process_role_is_asked_for_both_functions_calls() -> None:
    role = "arn:aws:iam::123456789012:role/service/orders"
    lacks = {role: frozenset({"dynamodb:Scan", "dynamodb:UpdateItem"})}
    (finding,) = of_roles(lacks, role=role)
    assert finding.where == role
    assert finding.what.count("dynamodb:Scan") == 2
    assert "dynamodb:UpdateItem" in finding.what


def test_doctor_tells_whose_permissions_it_checked_without_iams_answer() -> None:
    inspection = MemoryInspection(by_shard=MEASURED.by_shard, roles=DEPLOYED, refuses=frozenset({"denied_to"}))
    (finding,) = found(examined_world(inspection=inspection))[Check.ROLES]
    assert finding.severity is Severity.NOT_CHECKED
    assert finding.what.endswith("the permissions above are those of these credentials")


def test_executions_that_may_not_be_asked_for_leave_concurrency_unchecked_too() -> None:
    inspection = MemoryInspection(by_shard=MEASURED.by_shard, refuses=frozenset({"executions"}))
    not_well = severities(examined_world(inspection=inspection))
    assert not_well == {
        Check.EXECUTIONS: Severity.NOT_CHECKED,
        Check.CONCURRENCY: Severity.NOT_CHECKED,
    }


def test_unreadable_stream_is_bad_and_its_other_checks_are_not_checked() -> None:
    examined = replace(examined_world(), shards=NotKnown("there is no stream events"), by_shard=NotKnown("no stream"))
    not_well = severities(examined)
    assert not_well[Check.STREAM] is Severity.BAD
    assert not_well[Check.UNLEASED] is Severity.NOT_CHECKED
    assert not_well[Check.ORPHANED] is Severity.NOT_CHECKED
    assert Check.ROWS not in not_well


def test_a_clock_that_is_ahead_is_said_with_its_distance() -> None:
    world = EngineWorld(NO_WAITING)
    world.clock.jump(timedelta(seconds=12))
    (finding,) = found(examined_world(world))[Check.CLOCK]
    assert finding.severity is Severity.WARNING
    assert finding.what == "this machine's clock is 12 s ahead of Kinesis' clock"


def test_a_lease_without_a_shard_and_a_shard_without_a_lease() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.split(SHARD)
    world.change_lease(checkpoint=SHARD_END)
    assert texts(examined_world(world), Check.UNLEASED) == [
        "2 shards have no lease though the parents have ended: shardId-000000000001, shardId-000000000002"
    ]
    healthy = examined_world()
    assert not isinstance(healthy.scan, NotKnown)
    (lease,) = healthy.scan.leases
    gone = replace(lease, lease_key="shardId-9", checkpoint=Checkpoint("7"))
    scan = replaced(healthy.scan, leases=(lease, gone))
    (finding,) = found(replace(healthy, scan=scan))[Check.ORPHANED]
    assert (finding.severity, finding.where) == (Severity.BAD, "shardId-9")


@pytest.mark.parametrize(
    ("registered", "is_read", "is_named"),
    [(2 * HOUR, False, True), (2 * HOUR, True, False), (2 * HOUR, None, False), (HOUR / 2, False, False)],
    ids=["unread", "read", "not known", "new"],
)
def test_a_consumer_without_a_subscription_is_named_with_its_price(
    registered: timedelta, is_read: bool | None, is_named: bool
) -> None:
    healthy = examined_world()
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/events/consumer/left:1"
    left = RegisteredConsumer("left", arn, healthy.at - registered, is_read)
    (finding,) = found(replace(healthy, consumers=[left]))[Check.CONSUMERS]
    assert (finding.severity is Severity.WARNING) is is_named
    if is_named:
        assert finding.where == "left"
        assert "$11 a month for each shard" in finding.what
        assert f"--consumer-arn {arn}" in finding.then


def test_a_hot_shard_comes_with_the_command_that_splits_it() -> None:
    inspection = MemoryInspection(by_shard={SHARD: Volume(1000, 700)})
    (finding,) = found(examined_world(inspection=inspection))[Check.HOT_SHARDS]
    assert (finding.severity, finding.where) == (Severity.WARNING, SHARD)
    assert finding.what == "it takes 70% of what a shard can take"
    assert f"--shard-to-split {SHARD} --new-starting-hash-key {2**127}" in finding.then


@pytest.mark.parametrize(
    ("row", "severity", "says"),
    [
        (
            {"throughput_kbps": 1_000.0, "lease_owner": "java-1"},
            Severity.WARNING,
            "it is read at 98% of what a shard can take",
        ),
        ({"throughput_kbps": 1_000.0}, Severity.NOT_CHECKED, "the stream has no shard-level metrics"),
        (
            {"lag_report": LagReport(AT, bytes_per_second=700_000, records_per_second=1.0)},
            Severity.WARNING,
            "it is read at 67% of what a shard can take",
        ),
        ({}, Severity.NOT_CHECKED, "the stream has no shard-level metrics"),
    ],
)
def test_doctor_finds_hot_shards_by_rows_without_shard_metrics(
    row: dict[str, Any], severity: Severity, says: str
) -> None:
    world = EngineWorld(NO_WAITING)
    world.change_lease(**row)
    (finding,) = found(examined_world(world, inspection=MemoryInspection()))[Check.HOT_SHARDS]
    assert finding.severity is severity
    assert finding.what.startswith(says)


@pytest.mark.parametrize(
    ("throttled", "said"),
    [
        (ThrottledCounts(0, 0), ["no write and no poll was refused in the last hour"]),
        (ThrottledCounts(7, 0), ["the stream refused 7 records in the last hour"]),
        (ThrottledCounts(0, 8), ["the stream refused 8 polls in the last hour"]),
    ],
)
def test_doctor_counts_refused_records_and_polls(throttled: ThrottledCounts, said: list[str]) -> None:
    assert [judged.what for judged in throttling(throttled)] == said


def test_doctor_tells_of_a_failed_express_execution_without_a_count() -> None:
    at = datetime(2026, 11, 28, tzinfo=UTC)
    ((quiet,), (failed,)) = (
        list(executions(Executions(None, since), at)) for since in (None, at - timedelta(minutes=5))
    )
    assert quiet.severity is Severity.WELL
    assert "an Express one" in quiet.what
    assert failed.severity is Severity.WARNING
    assert "of an Express one: its log" in failed.then


@pytest.mark.parametrize(("open_shards", "severity"), [(159, Severity.WELL), (160, Severity.WARNING)])
def test_four_fifths_of_the_shard_quota_are_a_warning(open_shards: int, severity: Severity) -> None:
    limits = AccountInfo(open_shards, 200, on_demand_streams=0, on_demand_stream_limit=50)
    (judged,) = shard_quota(limits)
    assert judged.severity is severity
    assert judged.what.startswith(f"{open_shards} of 200 open shards")


@pytest.mark.parametrize(
    ("alarm", "concerns"),
    [
        (DeployedAlarm("any", None, "", frozenset({"orders"})), True),
        (DeployedAlarm("any", None, "", frozenset({"events"})), True),
        (DeployedAlarm("orders-ShardUnread", None, ""), True),
        (DeployedAlarm("any", None, "", frozenset({"orders-lease-workers"})), True),
        (DeployedAlarm("any", None, "", frozenset({"orders-express-workers"})), True),
        (DeployedAlarm("sublet-orders-Alarms7", None, ""), True),
        (DeployedAlarm("orders2-ShardUnread", None, "", frozenset({"orders2"})), False),
        (DeployedAlarm("billing", None, ""), False),
    ],
)
def test_doctor_counts_alarms_of_the_application_and_its_stream_alone(alarm: DeployedAlarm, concerns: bool) -> None:
    examined = examined_world(inspection=MemoryInspection(deployed_alarms=[alarm]))
    assert (Check.ALARMS in severities(examined)) is concerns


QUIET = DeployedAlarm("orders-Lagging", None, "", rings=False)
HEARD = DeployedAlarm("orders-DataGap", None, "", rings=False, actions=(TOPIC,))
COMPOSITE = DeployedAlarm("page", None, "", rings=False, actions=(TOPIC,), rule='ALARM("orders-Lagging")')
OF_THE_STREAM = DeployedAlarm("theirs", None, "", frozenset({"events"}), rings=False)


@pytest.mark.parametrize(
    ("alarms", "says"),
    [
        ([QUIET], "the application has 1, and none would notify anybody"),
        ([QUIET, HEARD], "the application has 2, and only 1, not orders-Lagging, would notify anybody"),
        ([QUIET, COMPOSITE], None),
        ([HEARD], None),
        ([OF_THE_STREAM], None),
        ([], None),
    ],
)
def test_doctor_says_that_alarms_reach_nobody(alarms: list[DeployedAlarm], says: str | None) -> None:
    examined = examined_world(inspection=replace(MEASURED, deployed_alarms=alarms))
    (finding,) = found(examined)[Check.ALARMS]
    assert finding.severity is (Severity.WELL if says is None else Severity.WARNING)
    if says is not None:
        assert finding.what == says
        assert "--alarm-email" in finding.then


@pytest.mark.parametrize(
    ("subscribers", "severity", "then"),
    [
        (Subscribers(1), Severity.WELL, ""),
        (Subscribers(0, 1), Severity.WARNING, "Click the link in the mail that AWS has sent."),
        (Subscribers(0), Severity.WARNING, "Subscribe an address to it."),
        (Subscribers(1, is_shut=True), Severity.BAD, "Encrypt it with a key whose policy lets CloudWatch use it."),
    ],
)
def test_doctor_says_that_nobody_has_subscribed_to_the_alarms_topic(
    subscribers: Subscribers, severity: Severity, then: str
) -> None:
    inspection = replace(MEASURED, deployed_alarms=[HEARD], topics={TOPIC: subscribers})
    (finding,) = found(examined_world(inspection=inspection))[Check.SUBSCRIBERS]
    assert (finding.severity, finding.then) == (severity, then)


def test_doctor_asks_about_topics_alone_and_about_each_once() -> None:
    function = "arn:aws:lambda:eu-west-1:123456789012:function:page"
    alarms = [HEARD, replaced(HEARD, name="orders-Lagging", actions=(TOPIC, function))]
    examined = examined_world(inspection=replace(MEASURED, deployed_alarms=alarms))
    assert examined.subscribers == {TOPIC: Subscribers(1)}


@pytest.mark.parametrize(
    ("lag", "severity", "left"),
    [
        (11, None, []),
        (12, Severity.WARNING, ["12 h are left"]),
        (17, Severity.WARNING, ["7.0 h are left"]),
        (18, Severity.BAD, ["6.0 h are left"]),
        (24, Severity.BAD, ["0.0 h are left"]),
    ],
)
def test_retention_finding_depends_on_the_time_left(lag: int, severity: Severity | None, left: list[str]) -> None:
    examined = examined_world()
    examined = replace(examined, fleet=fleet_with(examined, lag=lag * HOUR))
    assert severities(examined).get(Check.RETENTION) is severity
    bad = [finding.what for finding in found(examined)[Check.RETENTION] if finding.severity is not Severity.WELL]
    assert [what.rpartition(": ")[2] for what in bad] == left


@pytest.mark.parametrize(
    ("left", "severity"),
    [(5, Severity.WARNING), (3, Severity.WARNING), (0.9, Severity.BAD), (-1, Severity.BAD)],
)
def test_set_aside_finding_turns_bad_a_day_before_deletion(left: float, severity: Severity) -> None:
    healthy = examined_world()
    waiting = SetAsideWaiting(4, healthy.at - 10 * DAY, healthy.at + left * DAY)
    (finding,) = found(replace(healthy, set_aside=waiting))[Check.SET_ASIDE]
    assert finding.severity is severity
    assert ("deletes" in finding.what) is (left < 4)


def test_set_aside_batches_are_shown_below_their_number() -> None:
    aside = batch(100)
    inspection = MemoryInspection(kept={QUEUE: SetAsideWaiting(12)}, kept_batches=SetAsideBatches((aside,)))
    (finding,) = found(examined_world(inspection=inspection, on_failure=QUEUE, receives=True))[Check.SET_ASIDE]
    assert finding.what == "about 12 batches wait"
    assert finding.details == (*batch_text(aside), "and about 11 more")
    (finding,) = found(examined_world(inspection=inspection, on_failure=QUEUE))[Check.SET_ASIDE]
    assert finding.details == ()
    assert "--show-set-aside" in finding.then


def test_set_aside_batches_that_may_not_be_read_hide_not_their_number() -> None:
    refused = MemoryInspection(kept={QUEUE: SetAsideWaiting(3)}, refuses=frozenset({"set_aside_batches"}))
    (finding,) = found(examined_world(inspection=refused, on_failure=QUEUE))[Check.SET_ASIDE]
    assert finding.what == "about 3 batches wait"
    assert [line.partition(": ")[0] for line in finding.details] == ["they could not be looked at"]


def test_a_table_that_does_not_say_its_stream_is_not_called_this_stream_s() -> None:
    (finding,) = found(examined_world(EngineWorld(NO_WAITING)))[Check.AGREEMENT]
    assert finding.severity is Severity.NOT_CHECKED
    assert (
        finding.what == "the lease table does not say which stream it belongs to, and nothing contradicts this stream"
    )


def test_accepted_checkpoint_proves_that_the_leases_are_this_streams() -> None:
    """The other stream was created in the same second, so its numbers are not below this shard's first."""
    world = EngineWorld(NO_WAITING)
    number = world.shards.put(SHARD, b"1")
    world.change_lease(checkpoint=Checkpoint(number))
    (finding,) = found(examined_world(world))[Check.AGREEMENT]
    assert (finding.severity, finding.what) == (Severity.WELL, "the leases are this stream's")
    assert len(world.stream.opened) <= 2, "one for the agreement, one for the lag"
    world.change_lease(checkpoint=Checkpoint(str(int(number) + 7)))
    (finding,) = found(examined_world(world))[Check.AGREEMENT]
    assert finding.severity is Severity.BAD
    assert "the stream does not accept its checkpoint" in finding.what


def texts(examined: Examination, check: Check) -> Iterable[str]:
    return [each.what for each in found(examined)[check]]
