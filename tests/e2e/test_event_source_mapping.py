"""The same function behind LocalStack's own event source mapping and behind sublet: on one stream, with the same
failures.

Both get the same events, in the same calls, and send the same documents. Both also follow AWS's rules
(tests/doubles/esm_model.py); where LocalStack's poller lacks a rule, only those count.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sublet.settings import Settings

from infra.local.embedded import ACCOUNT, REGION, ROOT, EmbeddedAws
from infra.local.localstack_host import localstack
from tests.doubles.esm_model import Esm
from tests.e2e.deliveries import wait_until
from tests.e2e.fleet import HANDLERS
from tests.e2e.handlers.scripted import SENTINEL
from tests.e2e.mapping_cases import CASES, RECORDS, Case
from tests.e2e.processes import running

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.environ.get("E2E_AWS") != "localstack" or "E2E_ENDPOINT" in os.environ,
        reason="needs LocalStack in host mode: run `make e2e-localstack`",
    ),
]

ROLE = f"arn:aws:iam::{ACCOUNT}:role/any"


@dataclass
class Side:
    """One consumer of a case's stream: the mapping, or sublet."""

    aws: EmbeddedAws
    folder: Path
    destination: str
    queue: str
    documents: list[dict[str, Any]] = field(default_factory=list)

    @property
    def record(self) -> Path:
        return self.folder / "calls"

    def events(self) -> list[dict[str, Any]]:
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [json.loads(line) for line in lines]

    def calls(self) -> list[list[int]]:
        return [each["numbers"] for each in self.events()]

    def receive(self) -> None:
        sqs = self.aws.client("sqs")
        while found := sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                body = json.loads(message["Body"])
                self.documents.append(json.loads(body["Message"]) if "Message" in body else body)
                sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])

    def has(self, expected: Esm) -> bool:
        self.receive()
        return len(self.calls()) >= len(expected.calls) and len(self.documents) >= len(expected.set_aside)

    def has_seen_the_sentinel(self) -> bool:
        return any(SENTINEL in call for call in self.calls())


@dataclass
class Compared:
    """One case, with both of its consumers. `mapping` is None if LocalStack lacks the rule."""

    sublet: Side
    mapping: Side | None
    expected: Esm

    @property
    def sides(self) -> list[Side]:
        return [each for each in (self.sublet, self.mapping) if each]


Comparison = Callable[[str], Compared]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    """All cases, eight at a time: most of a case is waiting."""
    folders = {name: tmp_path_factory.mktemp(name) for name in CASES}
    with localstack() as aws, ThreadPoolExecutor(8) as pool:
        aws.client("kinesis").list_streams()  # it starts with the first call, and refuses others meanwhile
        playing = {name: pool.submit(play, aws, name, folder) for name, folder in folders.items()}
        yield lambda name: playing[name].result()
        pool.shutdown(cancel_futures=True)


def play(aws: EmbeddedAws, name: str, folder: Path) -> Compared:
    """Twenty records, to both consumers; when each has done what AWS's rules say, the sentinel, which comes after
    everything else."""
    case, stream, kinesis = CASES[name], name.replace("_", "-"), aws.client("kinesis")
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    put(aws, stream, *range(RECORDS))
    found = Compared(
        side(aws, case, f"{stream}-sublet", folder / "sublet"),
        None if case.lacks else side(aws, case, f"{stream}-mapping", folder / "mapping"),
        case.model(),
    )
    with ExitStack() as stack:
        if found.mapping:
            map_to_function(aws, case, stream, found.mapping)
        stack.enter_context(
            running(environment(aws, case, stream, found.sublet), found.sublet.folder, "-m", "sublet", "run")
        )
        wait_until(lambda: all(each.has(found.expected) for each in found.sides), 90, lambda: told(found))
        put(aws, stream, SENTINEL)
        wait_until(lambda: all(each.has_seen_the_sentinel() for each in found.sides), 60, lambda: told(found))
    for each in found.sides:
        each.receive()
    return found


def put(aws: EmbeddedAws, stream: str, *numbers: int) -> None:
    records = [{"Data": json.dumps({"n": n, "odd": n % 2 == 1}).encode(), "PartitionKey": f"key-{n}"} for n in numbers]
    aws.client("kinesis").put_records(StreamName=stream, Records=records)


def side(aws: EmbeddedAws, case: Case, name: str, folder: Path) -> Side:
    folder.mkdir()
    queue = aws.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
    if case.goes_to == "sqs":
        return Side(aws, folder, arn, queue)
    topic = aws.client("sns").create_topic(Name=name)["TopicArn"]
    aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return Side(aws, folder, topic, queue)


def variables(case: Case, side: Side) -> dict[str, str]:
    return {"SCRIPT": json.dumps(case.script), "RECORD": str(side.record)}


def map_to_function(aws: EmbeddedAws, case: Case, stream: str, side: Side) -> None:
    lambda_ = aws.client("lambda")
    lambda_.create_function(
        FunctionName=stream,
        Runtime="python3.13",
        Role=ROLE,
        Handler="scripted.handler",
        Timeout=10,
        Code={"ZipFile": zipped(HANDLERS / "scripted.py")},
        Environment={"Variables": variables(case, side)},
    )
    lambda_.get_waiter("function_active_v2").wait(FunctionName=stream, WaiterConfig={"Delay": 1})
    lambda_.create_event_source_mapping(
        EventSourceArn=f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{stream}",
        FunctionName=stream,
        StartingPosition="TRIM_HORIZON",
        **({"DestinationConfig": {"OnFailure": {"Destination": side.destination}}} if case.gives_up else {}),
        **{"BatchSize": 100, **case.mapping},
    )


def zipped(file: Path) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as entries:
        entries.write(file, file.name)
    return archive.getvalue()


def environment(aws: EmbeddedAws, case: Case, stream: str, side: Side) -> dict[str, str]:
    settings = {
        "application": f"{stream}-leases",
        "stream": stream,
        "handler": "scripted:handler",
        "handler_contract": "lambda_event",
        "invoke_identity_arn": ROLE,
        "mode": "continuous",
        "handler_backoff": "100ms",
        **({"on_failure": side.destination} if case.gives_up else {}),
        **settings_of(case.mapping),
    }
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, HANDLERS))),
        **aws.environment,
        **variables(case, side),
        **{f"SUBLET_{name.upper()}": value for name, value in settings.items()},
    }


def settings_of(mapping: Mapping[str, Any]) -> dict[str, str]:
    """Ours have the mapping's own names, in snake case."""
    reports = "FunctionResponseTypes" in mapping
    named = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): value if isinstance(value, str) else json.dumps(value)
        for name, value in mapping.items()
        if name != "FunctionResponseTypes"
    }
    assert set(named) <= set(Settings.__dataclass_fields__), named
    return {**named, "report_batch_item_failures": json.dumps(reports)}


def told(found: Compared) -> str:
    said = [f"{each.folder.name}: calls {each.calls()}, documents {each.documents}" for each in found.sides]
    return "\n".join([*said, (found.sublet.folder / "log").read_text()[-2000:]])


@pytest.mark.parametrize("name", CASES)
def test_sublet_and_the_mapping_call_the_function_as_aws_documents(compared: Comparison, name: str) -> None:
    found = compared(name)
    for each in found.sides:
        assert each.calls() == [*found.expected.calls, [SENTINEL]], each.folder.name


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.lacks])
def test_the_function_cannot_tell_whose_event_it_got(compared: Comparison, name: str) -> None:
    found = compared(name)
    assert found.mapping
    assert found.sublet.events() == found.mapping.events()


@pytest.mark.parametrize("name", CASES)
def test_a_given_up_batch_has_the_same_document(compared: Comparison, name: str) -> None:
    """Except for a field of ours, which has the records. Caller and time are each one's own."""
    found = compared(name)
    documents = [_comparable(each) for each in found.sublet.documents]
    assert [
        (
            document["KinesisBatchInfo"]["batchSize"],
            document["requestContext"]["approximateInvokeCount"],
            document["requestContext"]["condition"],
        )
        for document in documents
    ] == [(len(records), calls, condition) for records, calls, condition in found.expected.set_aside]
    if found.mapping:
        assert documents == [_comparable(each) for each in found.mapping.documents]


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in document.items() if name != "sublet"}
    request = known["requestContext"]
    own = {"requestId", "functionArn"}
    assert all(isinstance(request[name], str) for name in own)
    return {
        **known,
        "requestContext": {name: value for name, value in request.items() if name not in own},
        "timestamp": len(known["timestamp"]),
    }
