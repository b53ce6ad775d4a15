"""The Inspection port's promises, over memory, moto and recorded replies of AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from sublet.aws.clients import dynamodb_client
from sublet.aws.set_aside.failure_destinations import failure_destination
from sublet.errors import AwsNotConfigured, CheckRefused
from sublet.operate.aws.figures import CloudWatchFigures
from sublet.operate.aws.inspection import AwsInspection
from sublet.operate.cli.main import main
from sublet.operate.inspection import Inspection
from sublet.operate.memory_inspection import MemoryInspection
from sublet.operate.rules.examination import Executions, QuotaUsage, Subscribers, ThrottledCounts, Volume
from sublet.operate.rules.last_hour import RecordedHour
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting
from sublet.protocol.failure_document import OBJECT_SUFFIX
from sublet.protocol.stream_key import StreamKey, in_stream
from sublet.settings import Settings

from tests.contract.dynamodb_tables import create_table
from tests.contract.test_failure_destination import batch

MINUTE = timedelta(minutes=1)
SHARD = "shardId-000000000000"
ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/events"
TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
SETTINGS = Settings(application="orders", stream="events", stream_arn=ARN)


@pytest.fixture
def inspection(moto_aws: None) -> AwsInspection:
    boto3.client("kinesis").create_stream(StreamName="events", ShardCount=2)
    return AwsInspection(SETTINGS, ARN)


@pytest.fixture(params=["memory", pytest.param("moto", marks=pytest.mark.emulator)])
def any_inspection(request: pytest.FixtureRequest) -> Inspection:
    if request.param == "memory":
        return MemoryInspection()
    found: Inspection = request.getfixturevalue("inspection")
    return found


def put_figures(namespace: str, name: str, values: list[float], **dimensions: str) -> None:
    """One value each minute, from ten minutes ago on."""
    begin = datetime.now(UTC) - 10 * MINUTE
    boto3.client("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
                "Timestamp": begin + minute * MINUTE,
                "Value": value,
            }
            for minute, value in enumerate(values)
        ],
    )


def test_a_quiet_account_has_nothing_to_say(any_inspection: Inspection) -> None:
    assert any_inspection.incoming(15 * MINUTE) == Volume(0, 0)
    assert any_inspection.incoming_by_shard([SHARD], 15 * MINUTE) == {}
    assert any_inspection.throttled(60 * MINUTE) == ThrottledCounts(0, 0)
    assert any_inspection.last_hour() == RecordedHour()
    assert list(any_inspection.alarms()) == []
    assert list(any_inspection.consumers()) == []
    assert any_inspection.executions() is None


def test_a_streams_figures_are_averages_by_the_second(inspection: AwsInspection) -> None:
    put_figures("AWS/Kinesis", "IncomingBytes", [9_000] * 5, StreamName="events")
    put_figures("AWS/Kinesis", "IncomingRecords", [18] * 5, StreamName="events")
    put_figures("AWS/Kinesis", "WriteProvisionedThroughputExceeded", [0, 3, 4], StreamName="events")
    put_figures("AWS/Kinesis", "IncomingBytes", [10**9], StreamName="other")
    assert inspection.incoming(15 * MINUTE) == Volume(50, 0.1)
    assert inspection.throttled(15 * MINUTE) == ThrottledCounts(7, 0)


@pytest.mark.parametrize(("days", "seconds"), [(1, 60), (14, 60), (20, 300), (365, 3600)])
def test_figures_of_a_long_time_use_the_period_that_cloudwatch_keeps(days: int, seconds: int) -> None:
    """GetMetricData: "If the StartTime parameter specifies a time stamp that is greater than 3 hours ago, you must
    specify the period as follows": minutes for 15 days, five minutes for 63 days, and hours beyond.
    """
    made: Any = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    cloudwatch: Any = boto3.client("cloudwatch", **made)
    now, asked = datetime(2026, 11, 23, tzinfo=UTC), []
    cloudwatch.meta.events.register(
        "before-parameter-build.cloudwatch.GetMetricData", lambda params, **_: asked.append(params)
    )
    with Stubber(cloudwatch) as stubbed:
        stubbed.add_response("get_metric_data", {"MetricDataResults": []})
        CloudWatchFigures(cloudwatch, now).incoming("events", timedelta(days=days))
    assert [query["MetricStat"]["Period"] for query in asked[0]["MetricDataQueries"]] == [seconds, seconds]


def test_last_hour_has_the_applications_metrics_by_the_minute(inspection: AwsInspection) -> None:
    put_figures("sublet", "millis_behind_latest", [5_000, 61_000], application="orders")
    put_figures("sublet", "bytes", [61_440], application="orders")
    put_figures("sublet", "lost_leases", [2], application="orders")
    for name in ("millis_behind_latest", "bytes", "lost_leases"):
        put_figures("sublet", name, [10**9], application="other")
        put_figures("sublet", name, [10**9], application="orders", shard_id=SHARD)
    hour = inspection.last_hour()
    first, second = sorted(hour.lags)
    assert (hour.lags[first], hour.lags[second]) == (5.0, 61.0)
    assert second - first == MINUTE
    assert first.second == first.microsecond == 0
    assert hour.kbps == {first: 1.0}
    assert hour.moves == {first: 2.0, second: 0.0}


def test_lags_are_the_worst_of_each_step_of_the_application_or_a_shard(inspection: AwsInspection) -> None:
    put_figures("sublet", "millis_behind_latest", [5_000, 61_000, 7_000], application="orders")
    put_figures("sublet", "millis_behind_latest", [3_000], application="orders", shard_id=SHARD)
    put_figures("sublet", "millis_behind_latest", [4_000], application="orders", stream="events", shard_id=SHARD)
    put_figures("sublet", "millis_behind_latest", [10**9], application="other")
    lags = inspection.lags(timedelta(hours=1), MINUTE)
    assert [lag.total_seconds() for _, lag in sorted(lags.items())] == [5, 61, 7]
    assert max(inspection.lags(timedelta(days=1), 30 * MINUTE).values()) == timedelta(seconds=61)
    assert [*inspection.lags(timedelta(hours=1), MINUTE, SHARD).values()] == [timedelta(seconds=3)]
    several = in_stream(StreamKey("123456789012", "events", 1), SHARD)
    assert [*inspection.lags(timedelta(hours=1), MINUTE, several).values()] == [timedelta(seconds=4)]
    put_figures("sublet", "millis_behind_latest", [9_000], application="orders", stream="events")
    assert [*inspection.lags(timedelta(hours=1), MINUTE, stream="events").values()] == [timedelta(seconds=9)]


@pytest.mark.usefixtures("moto_aws")
@pytest.mark.emulator
def test_the_command_shows_lags_of_an_application_and_of_a_shard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    create_table(dynamodb_client(), "orders", "leaseKey")
    put_figures("sublet", "millis_behind_latest", [5_000, 61_000], application="orders")
    put_figures("sublet", "millis_behind_latest", [3_000], application="orders", shard_id=SHARD)
    assert main(["lag", "--application", "orders", "--over", "40m"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("lag of orders, the worst in each 1m; at most 61s, at ")
    assert len(rows) == 2
    assert main(["lag", SHARD, "--application", "orders", "--over", "40m", "--json"]) == 0
    assert [each["seconds"] for each in json.loads(capsys.readouterr().out)["lags"]] == [3]
    assert main(["lag", "--application", "nobody", "--over", "40m"]) == 0
    assert capsys.readouterr().out.startswith("CloudWatch has no lag of nobody in the last 40m\n")


def test_figures_of_shards_are_those_of_shards_that_have_any(inspection: AwsInspection) -> None:
    put_figures("AWS/Kinesis", "IncomingBytes", [900], StreamName="events", ShardId=SHARD)
    asked = [f"shardId-{number:012}" for number in range(300)]
    assert inspection.incoming_by_shard(asked, 15 * MINUTE) == {SHARD: Volume(1, 0)}


def test_inspection_lists_alarms_with_their_mentions_and_who_is_notified(inspection: AwsInspection) -> None:
    cloudwatch: Any = boto3.client("cloudwatch")
    common: dict[str, Any] = {
        "EvaluationPeriods": 1,
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    dimensions = [{"Name": "application", "Value": "orders"}]
    metric = {"Namespace": "sublet", "MetricName": "unread_age", "Dimensions": dimensions}
    cloudwatch.put_metric_alarm(AlarmName="plain", Statistic="Maximum", Period=60, **metric, **common)
    cloudwatch.put_metric_alarm(
        AlarmName="math",
        **common,
        Metrics=[{"Id": "m", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Maximum"}, "ReturnData": True}],
    )
    select = "SELECT MAX(lag) FROM SCHEMA(\"sublet\", application, stream) WHERE application = 'orders' GROUP BY stream"
    cloudwatch.put_metric_alarm(
        AlarmName="query",
        **common,
        Metrics=[{"Id": "q", "Expression": select, "Period": 60, "ReturnData": True}],
    )
    cloudwatch.put_metric_alarm(AlarmName="fine", Statistic="Maximum", Period=60, **metric, **common)
    for name in ("plain", "math", "query"):
        cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="one point")
    topic = boto3.client("sns").create_topic(Name="alarms")["TopicArn"]
    muted: dict[str, Any] = {"AlarmActions": [topic], **metric, **common}
    cloudwatch.put_metric_alarm(AlarmName="heard", Statistic="Maximum", Period=60, **muted)
    cloudwatch.put_metric_alarm(AlarmName="muted", Statistic="Maximum", Period=60, ActionsEnabled=False, **muted)
    found = {alarm.name: alarm for alarm in inspection.alarms()}
    assert {name for name, alarm in found.items() if alarm.rings} == {"plain", "math", "query"}
    assert {name: alarm.actions for name, alarm in found.items() if alarm.actions} == {"heard": (topic,)}
    assert found["plain"].reason == "one point"
    assert all("orders" in alarm.mentions for alarm in found.values())


def test_composite_alarm_has_its_rule_and_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    inspection = AwsInspection(SETTINGS, ARN)
    page = {
        "AlarmName": "page",
        "AlarmRule": 'ALARM("orders-Lagging")',
        "StateValue": "OK",
        "ActionsEnabled": True,
        "AlarmActions": [TOPIC],
    }
    with Stubber(inspection._cloudwatch) as stubber:
        asked = {"AlarmTypes": ["MetricAlarm", "CompositeAlarm"]}
        stubber.add_response("describe_alarms", {"CompositeAlarms": [page]}, asked)
        (found,) = inspection.alarms()
    assert (found.rule, found.actions, found.rings) == ('ALARM("orders-Lagging")', (TOPIC,), False)


def test_promql_alarm_mentions_what_its_query_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    inspection = AwsInspection(SETTINGS, ARN)
    query = 'max by ("shard") ({"sublet.lag","messaging.consumer.group.name"="orders"}) > 0'
    alarm = {
        "AlarmName": "Audit-Lagging",
        "StateValue": "ALARM",
        "EvaluationCriteria": {"PromQLCriteria": {"Query": query}},
    }
    with Stubber(inspection._cloudwatch) as stubber:
        asked = {"AlarmTypes": ["MetricAlarm", "CompositeAlarm"]}
        stubber.add_response("describe_alarms", {"MetricAlarms": [alarm]}, asked)
        (found,) = inspection.alarms()
    assert (found.mentions, found.rings) == (frozenset({"orders"}), True)


def test_subscriptions_of_a_topic_are_counted_or_the_permission_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    inspection = AwsInspection(SETTINGS, ARN)
    with Stubber(inspection._sns) as stubber:
        counted = {"SubscriptionsConfirmed": "2", "SubscriptionsPending": "1"}
        stubber.add_response("get_topic_attributes", {"Attributes": counted}, {"TopicArn": TOPIC})
        assert inspection.subscribers(TOPIC) == Subscribers(2, 1)
        shut = {**counted, "KmsMasterKeyId": "alias/aws/sns"}
        stubber.add_response("get_topic_attributes", {"Attributes": shut}, {"TopicArn": TOPIC})
        assert inspection.subscribers(TOPIC).is_shut
        stubber.add_client_error("get_topic_attributes", "AuthorizationError")
        with pytest.raises(CheckRefused, match="these credentials lack sns:GetTopicAttributes"):
            inspection.subscribers(TOPIC)


def test_inspection_lists_registered_consumers_and_whether_they_subscribe(inspection: AwsInspection) -> None:
    kinesis = boto3.client("kinesis")
    arn = kinesis.describe_stream_summary(StreamName="events")["StreamDescriptionSummary"]["StreamARN"]
    for name in ("one", "two"):
        kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=name)
    put_figures("AWS/Kinesis", "SubscribeToShard.Success", [0, 1], StreamName="events", ConsumerName="one")
    put_figures("AWS/Kinesis", "SubscribeToShard.Success", [1], StreamName="other", ConsumerName="two")
    one, two = AwsInspection(SETTINGS, arn).consumers()
    assert (one.name, one.is_read, two.name, two.is_read) == ("one", True, "two", False)
    assert one.arn.startswith(f"{arn}/consumer/one")
    assert abs(datetime.now(UTC) - one.registered_at) < MINUTE


def test_whether_consumers_subscribe_may_not_be_known(
    inspection: AwsInspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinesis = boto3.client("kinesis")
    arn = kinesis.describe_stream_summary(StreamName="events")["StreamDescriptionSummary"]["StreamARN"]
    kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="one")
    client: Any = boto3.client("cloudwatch")
    monkeypatch.setattr("sublet.aws.clients.cloudwatch_client", lambda *_: client)
    with Stubber(client) as stubber:
        stubber.add_client_error("get_metric_data", "AccessDenied")
        (consumer,) = AwsInspection(SETTINGS, arn).consumers()
    assert consumer.is_read is None


def test_inspection_finds_no_denied_reads_where_nothing_is_denied(inspection: AwsInspection) -> None:
    """Moto knows no dry run and reads; its iterators know no ARN."""
    assert AwsInspection(SETTINGS, None).denied_reads(SHARD) == ()
    assert MemoryInspection().denied_reads(SHARD) == ()


def test_checks_that_need_the_streams_arn_are_refused_without_it(moto_aws: None) -> None:
    for question in (AwsInspection(SETTINGS, None).consumers, AwsInspection(SETTINGS, None).executions):
        with pytest.raises(CheckRefused, match="ARN is unknown"):
            question()


def test_a_consumers_writes_are_tried_and_none_is_done(inspection: AwsInspection) -> None:
    dynamodb = boto3.client("dynamodb")
    with pytest.raises(CheckRefused, match="dynamodb:PutItem failed: ResourceNotFoundException"):
        inspection.denied_writes()
    create_table(dynamodb, "orders", "leaseKey")
    create_table(dynamodb, "orders-sightings", "chunk")
    assert list(inspection.denied_writes()) == []
    for table in ("orders", "orders-sightings"):
        assert dynamodb.scan(TableName=table)["Items"] == []


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AwsInspection, Stubber]]:
    """Replies of Kinesis and DynamoDB that no emulator gives, checked against botocore's model."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    inspection = AwsInspection(SETTINGS, ARN)
    with Stubber(inspection._kinesis) as stubber:
        yield inspection, stubber


def test_a_dry_run_is_allowed_where_kinesis_says_that_it_would_have_been(
    stubbed: tuple[AwsInspection, Stubber],
) -> None:
    inspection, stubber = stubbed
    stubber.add_response("get_shard_iterator", {"ShardIterator": "it"})
    stubber.add_client_error(
        "get_records",
        "DryRunOperationException",
        expected_params={"ShardIterator": "it", "Limit": 1, "DryRun": True, "StreamARN": ARN},
    )
    assert inspection.denied_reads(SHARD) == ()


@pytest.mark.parametrize("denied", ["kinesis:GetShardIterator", "kinesis:GetRecords"])
def test_a_read_that_is_denied_is_named(stubbed: tuple[AwsInspection, Stubber], denied: str) -> None:
    inspection, stubber = stubbed
    if denied == "kinesis:GetRecords":
        stubber.add_response("get_shard_iterator", {"ShardIterator": "it"})
        stubber.add_client_error("get_records", "AccessDeniedException")
    else:
        stubber.add_client_error("get_shard_iterator", "AccessDeniedException")
    assert inspection.denied_reads(SHARD) == (denied,)


def test_a_question_that_is_denied_names_its_action(stubbed: tuple[AwsInspection, Stubber]) -> None:
    inspection, stubber = stubbed
    stubber.add_client_error("list_stream_consumers", "AccessDeniedException")
    with pytest.raises(CheckRefused, match="these credentials lack kinesis:ListStreamConsumers"):
        inspection.consumers()
    stubber.add_client_error("list_stream_consumers", "ExpiredTokenException", "expired")
    with pytest.raises(AwsNotConfigured, match="log in again"):
        inspection.consumers()


def test_executions_that_run_and_the_last_that_failed(moto_aws: None) -> None:
    stepfunctions = boto3.client("stepfunctions")
    role = "arn:aws:iam::123456789012:role/any"
    definition = '{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}'
    machine = stepfunctions.create_state_machine(name="orders-lease-workers", definition=definition, roleArn=role)[
        "stateMachineArn"
    ]
    for name in ("one", "two"):
        stepfunctions.start_execution(stateMachineArn=machine, name=name)
    inspection = AwsInspection(SETTINGS, ARN)
    assert inspection.executions() == Executions(2, None)
    stepfunctions.stop_execution(executionArn=machine.replace("stateMachine", "execution") + ":one")
    found = inspection.executions()
    assert found is not None
    assert found.running == 1
    assert found.failed_at is not None


def test_express_executions_are_known_by_the_last_that_failed(moto_aws: None) -> None:
    """Step Functions lists none of them."""
    inspection = AwsInspection(SETTINGS, ARN)
    assert inspection.executions() is None
    definition = '{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}'
    machine = boto3.client("stepfunctions").create_state_machine(
        name="orders-express-workers",
        definition=definition,
        roleArn="arn:aws:iam::123456789012:role/any",
        type="EXPRESS",
    )["stateMachineArn"]
    assert inspection.executions() == Executions(None, None)
    put_figures("AWS/States", "ExecutionsTimedOut", [0, 1, 0], StateMachineArn=machine)
    found = inspection.executions()
    assert found is not None
    assert found.running is None
    assert found.failed_at is not None


def test_concurrency_is_the_most_that_was_used_beside_the_quota(
    moto_aws: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_figures("AWS/Lambda", "ConcurrentExecutions", [3, 41, 7])
    client: Any = boto3.client("lambda")
    monkeypatch.setattr("sublet.aws.clients.lambda_client", lambda *_: client)
    with Stubber(client) as stubber:
        stubber.add_response("get_account_settings", {"AccountLimit": {"ConcurrentExecutions": 1000}})
        assert AwsInspection(SETTINGS, ARN).concurrency() == QuotaUsage(41, 1000)


def test_inspection_tells_how_many_batches_a_queue_keeps_and_until_when(inspection: AwsInspection) -> None:
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName="given-up", Attributes={"MessageRetentionPeriod": "1209600"})["QueueUrl"]
    arn = "arn:aws:sqs:us-east-1:123456789012:given-up"
    assert inspection.set_aside(arn) == SetAsideWaiting(0)
    for text in ("one", "two"):
        sqs.send_message(QueueUrl=url, MessageBody=text)
    assert inspection.set_aside(arn) == SetAsideWaiting(2), "CloudWatch has no age yet"
    put_figures("AWS/SQS", "ApproximateAgeOfOldestMessage", [60, 120], QueueName="given-up")
    found = inspection.set_aside(arn)
    assert found.oldest is not None
    assert found.forgotten_at == found.oldest + timedelta(days=14)
    assert abs(datetime.now(UTC) - timedelta(seconds=120) - found.oldest) < MINUTE


def test_inspection_tells_how_many_batches_a_bucket_keeps_and_until_when(inspection: AwsInspection) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="given-up")
    destination = "arn:aws:s3:::given-up/aside"
    assert inspection.set_aside(destination) == SetAsideWaiting(0)
    for key in ("aside/orders/notes.txt", f"beside/orders/shardId-0/1{OBJECT_SUFFIX}"):
        s3.put_object(Bucket="given-up", Key=key, Body=b"{}")
    s3.put_object(Bucket="given-up", Key=f"aside/orders/shardId-0/2{OBJECT_SUFFIX}", Body=b"{}")
    found = inspection.set_aside(destination)
    assert found.batches == 1
    assert found.forgotten_at is None
    rules = [
        {"ID": "mine", "Status": "Enabled", "Filter": {"Prefix": "aside/"}, "Expiration": {"Days": 30}},
        {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": "aside/"}, "Expiration": {"Days": 2}},
        {"ID": "other", "Status": "Enabled", "Filter": {"Prefix": "beside/"}, "Expiration": {"Days": 3}},
    ]
    s3.put_bucket_lifecycle_configuration(Bucket="given-up", LifecycleConfiguration={"Rules": rules})  # type: ignore[typeddict-item]
    found = inspection.set_aside(destination)
    assert found.oldest is not None
    assert found.forgotten_at == found.oldest + timedelta(days=30)


def test_inspection_shows_the_first_batches_of_a_bucket_and_reads_no_more(inspection: AwsInspection) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="given-up")
    destination = "arn:aws:s3:::given-up/aside"
    ours = [replace(batch(10 * number), application="orders") for number in range(1, 4)]
    for each in (*ours, replace(batch(10), application="billing")):
        failure_destination(destination).put(each)
    found = inspection.set_aside_batches(destination, 2, receives=False)
    assert found == SetAsideBatches(tuple(ours[:2]), foreign=1)
    found = inspection.set_aside_batches(destination, 10, receives=False)
    assert found == SetAsideBatches(tuple(ours), foreign=1)


@pytest.mark.parametrize("name", ["given-up", "given-up.fifo"])
def test_inspection_shows_the_first_batches_of_a_queue_and_hides_none(inspection: AwsInspection, name: str) -> None:
    sqs = boto3.client("sqs")
    fifo: Any = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    url = sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:123456789012:{name}"
    ours = [replace(batch(10 * number), application="orders") for number in range(1, 4)]
    for each in (*ours, replace(batch(10), application="billing")):
        failure_destination(arn).put(each)
    if not fifo:
        sqs.send_message(QueueUrl=url, MessageBody="a stranger's")
    found = inspection.set_aside_batches(arn, 10, receives=True)
    assert found is not None
    assert (found.batches, found.foreign, len(found.unreadable)) == (tuple(ours), 1, 0 if fifo else 1)
    names = ["ApproximateNumberOfMessagesNotVisible"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]  # type: ignore[arg-type]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_inspection_receives_from_no_queue_unless_it_is_told_to(inspection: AwsInspection) -> None:
    """A dead-letter queue takes what was received too often."""
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName="given-up")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="one")
    arn = "arn:aws:sqs:us-east-1:123456789012:given-up"
    assert inspection.set_aside_batches(arn, 10, receives=False) is None
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["ApproximateReceiveCount"])["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_a_memory_inspection_refuses_what_it_is_told_to() -> None:
    with pytest.raises(CheckRefused, match="alarms"):
        MemoryInspection(refuses=frozenset({"alarms"})).alarms()
