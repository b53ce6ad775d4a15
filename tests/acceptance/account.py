"""The AWS for the acceptance run: a real account, with the caller's own credentials, or the embedded one (a dry
run).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.local.deploy import BOOTSTRAP_DONE, BOOTSTRAP_STACK, AwsToDeployTo


class NotReady(Exception):
    """The account cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    number: str
    region: str
    session: Any

    @property
    def environment(self) -> Mapping[str, str]:
        """For boto3 and the CDK, with the credentials of this moment: keep it out of every message. Credentials that
        renew themselves still last ten minutes at least, which a deployment does not need.
        """
        keys = self.session.get_credentials().get_frozen_credentials()
        return {
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            **({"AWS_SESSION_TOKEN": keys.token} if keys.token else {}),
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    def client(self, service: str) -> Any:
        retries = Config(retries={"mode": "standard", "max_attempts": 6}, connect_timeout=5, read_timeout=120)
        return self.session.client(service, config=retries)


def real_account(region: str | None, profile: str | None = None) -> Account:
    """With the credentials that boto3 finds. Raises NotReady."""
    with answered():
        session: Any = boto3.session.Session(region_name=region, profile_name=profile)
        credentials = session.get_credentials()
        if credentials is None:
            raise NotReady("there are no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and the others")
        if not session.region_name:
            raise NotReady("there is no region: set AWS_DEFAULT_REGION, or give --region")
        credentials.get_frozen_credentials()
        number = session.client("sts").get_caller_identity()["Account"]
        return Account(number, session.region_name, session)


@contextmanager
def answered() -> Iterator[None]:
    """Turns what boto3 raises at the first calls, such as for a missing profile or a login that has ended, into
    NotReady, in one line.
    """
    try:
        yield
    except (BotoCoreError, ClientError, OSError) as problem:
        said = " ".join(str(problem).split())
        raise NotReady(f"AWS cannot be used with these credentials: {said}") from problem


def check_bootstrapped(aws: AwsToDeployTo) -> None:
    """The CDK's own stack serves all of an account's stacks, so this run neither creates nor removes it. Raises
    NotReady."""
    with answered():
        pages = aws.client("cloudformation").get_paginator("list_stacks").paginate(StackStatusFilter=BOOTSTRAP_DONE)
        found = any(each["StackName"] == BOOTSTRAP_STACK for page in pages for each in page["StackSummaries"])
    if not found:
        raise NotReady(
            "the CDK has no bucket in this account and region yet: run `node_modules/.bin/cdk bootstrap` once"
        )
