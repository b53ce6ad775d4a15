"""Chooses the AWS that the end-to-end suite runs on: E2E_AWS=embedded (the default), E2E_AWS=localstack, or
E2E_ENDPOINT=http://...
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.local.embedded import EmbeddedAws, embedded_aws
from infra.local.localstack_host import aws_at, localstack
from tests.e2e.deliveries import Bucket

APPLICATION = "e2e-catch-up"
LOCALSTACK_CONTEXT = {"sublet:metric-math-alarms": "true"}
"""LocalStack accepts every alarm; ministack fails on these."""


@dataclass(frozen=True, slots=True)
class ChosenAws:
    """recorder_place  where the handler and the test communicate. A folder if functions are our own processes
    context            the CDK's, in addition to the context for every emulator"""

    aws: EmbeddedAws
    application: str
    recorder_place: Path | Bucket
    context: Mapping[str, str]
    enforces_iam: bool


@contextmanager
def chosen_aws(folder: Path) -> Iterator[ChosenAws]:
    """The AWS chosen by the environment, until the block ends. `folder` is for the recorder."""
    if endpoint := os.environ.get("E2E_ENDPOINT"):
        application = f"{APPLICATION}-{uuid.uuid4().hex[:8]}"  # what ran there before may have left something
        aws = aws_at(endpoint)
        with _bucket(aws, f"{application}-recorder") as bucket:
            yield ChosenAws(aws, application, bucket, LOCALSTACK_CONTEXT, enforces_iam=False)
        return
    match os.environ.get("E2E_AWS") or "embedded":
        case "embedded":
            with embedded_aws() as aws:
                yield ChosenAws(aws, APPLICATION, folder, {}, enforces_iam=True)
        case "localstack":
            with localstack() as aws:
                yield ChosenAws(aws, APPLICATION, folder, LOCALSTACK_CONTEXT, enforces_iam=False)
        case other:
            raise ValueError(f"E2E_AWS is {other!r}: embedded or localstack, or set E2E_ENDPOINT instead")


@contextmanager
def _bucket(aws: EmbeddedAws, name: str) -> Iterator[Bucket]:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=name)
    bucket = Bucket(s3, name)
    try:
        yield bucket
    finally:
        for each in bucket.names():
            s3.delete_object(Bucket=name, Key=each)
        s3.delete_bucket(Bucket=name)
