"""The AWS for the acceptance run: a real account, with the caller's own credentials, or the embedded one (a dry
run).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from infra.local.deploy import BOOTSTRAP_DONE, BOOTSTRAP_STACK, AwsToDeployTo


class NotReady(Exception):
    """The account cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """environment   for boto3 and the CDK, including credentials: keep it out of every message"""

    environment: Mapping[str, str]
    number: str
    region: str
    session: Any

    def client(self, service: str) -> Any:
        retries = Config(retries={"mode": "standard", "max_attempts": 6}, connect_timeout=5, read_timeout=120)
        return self.session.client(service, config=retries)


def real_account(region: str | None) -> Account:
    """With the credentials that boto3 finds. Raises NotReady."""
    session: Any = boto3.session.Session(region_name=region)
    credentials = session.get_credentials()
    if credentials is None:
        raise NotReady("there are no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and the others")
    if not session.region_name:
        raise NotReady("there is no region: set AWS_DEFAULT_REGION, or give --region")
    keys = credentials.get_frozen_credentials()
    environment: dict[str, str] = {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key,
        **({"AWS_SESSION_TOKEN": keys.token} if keys.token else {}),
        "AWS_REGION": session.region_name,
        "AWS_DEFAULT_REGION": session.region_name,
    }
    number = session.client("sts").get_caller_identity()["Account"]
    return Account(environment, number, session.region_name, session)


def check_bootstrapped(aws: AwsToDeployTo) -> None:
    """The CDK's own stack serves all of an account's stacks, so this run neither creates nor removes it. Raises
    NotReady."""
    pages = aws.client("cloudformation").get_paginator("list_stacks").paginate(StackStatusFilter=BOOTSTRAP_DONE)
    if not any(each["StackName"] == BOOTSTRAP_STACK for page in pages for each in page["StackSummaries"]):
        raise NotReady(
            "the CDK has no bucket in this account and region yet: run `node_modules/.bin/cdk bootstrap` once"
        )
