"""A Kinesis that refuses single records of a PutRecords while it is busy, as a shard over its quota does: kinesis-local
has no quotas.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.counting_proxy import Connection, Reply, serving

PUT_RECORDS = "PutRecords"
SHARE = 0.4
"""Of the records of a call, while it is busy."""

REFUSED = {
    "ErrorCode": "ProvisionedThroughputExceededException",
    "ErrorMessage": "Rate exceeded for a shard of this stream",
}


@dataclass
class Busy:
    """`refused` counts stream records."""

    chance: Random
    url: str = ""
    until: float = 0.0
    refused: int = 0

    def burst(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    def strikes(self) -> bool:
        return time.monotonic() < self.until and self.chance.random() < SHARE


@contextmanager
def refusing(upstream: str, region: str, access_key: str, secret_key: str, seed: str) -> Iterator[Busy]:
    """On a free loopback port, until the block ends. What is passed on in part has to be signed again, with these
    keys.
    """
    busy, lock = Busy(Random(seed)), threading.Lock()
    signer = SigV4Auth(Credentials(access_key, secret_key), "kinesis", region)

    def respond(connection: Connection, operation: str, body: bytes) -> None:
        request = json.loads(body) if operation == PUT_RECORDS else {}
        with lock:
            refused = {number for number, _ in enumerate(request.get("Records", ())) if busy.strikes()}
            busy.refused += len(refused)
        if not refused:
            return connection.answer(connection.forward(upstream, body))
        left = [one for number, one in enumerate(request["Records"]) if number not in refused]
        took = _forwarded(connection, signer, upstream, {**request, "Records": left}) if left else None
        if took is not None and took.status != 200:
            return connection.answer(took)
        return connection.answer(_mixed(len(request["Records"]), refused, took))

    with serving(respond) as url:
        busy.url = url
        yield busy


def _forwarded(connection: Connection, signer: SigV4Auth, upstream: str, request: dict[str, Any]) -> Reply:
    kept = {name: str(connection.headers[name]) for name in ("content-type", "x-amz-target")}
    body = json.dumps(request).encode()
    signed = AWSRequest("POST", f"{upstream}/", headers=kept, data=body)
    signer.add_auth(signed)
    for name in list(connection.headers):
        del connection.headers[name]
    for name, value in signed.headers.items():
        connection.headers[name] = value
    return connection.forward(upstream, body)


def _mixed(records: int, refused: set[int], took: Reply | None) -> Reply:
    answers = iter(json.loads(took.content)["Records"] if took is not None else ())
    mixed = [REFUSED if number in refused else next(answers) for number in range(records)]
    failed = sum("ErrorCode" in one for one in mixed)
    content = json.dumps({"FailedRecordCount": failed, "Records": mixed}).encode()
    headers = took.headers if took is not None else [("content-type", "application/x-amz-json-1.1")]
    return Reply(200, headers, content)
