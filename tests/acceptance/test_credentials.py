"""Credentials of an acceptance run: those that end before it are refused, in one line, and the CDK gets those of the
moment.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import ClientError

from tests.acceptance import credentials
from tests.acceptance.__main__ import main
from tests.acceptance.account import Account, NotReady, answered
from tests.acceptance.credentials import CredentialsTooShort, Lifetime, check_they_last, lifetime

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
LOGIN = """[default]
region = eu-west-1
sso_start_url = https://x.awsapps.com/start
sso_region = eu-west-1
sso_account_id = 123456789012
sso_role_name = Admin
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty AWS configuration of its own. Returns its file."""
    for name in (
        *("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"),
        *("AWS_CREDENTIAL_EXPIRATION", "AWS_DEFAULT_REGION", "AWS_REGION"),
    ):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text("[default]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(credentials, "SSO_TOKENS", tmp_path)
    return config


def with_keys(monkeypatch: pytest.MonkeyPatch, **others: str) -> Any:
    for name, value in {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", **others}.items():
        monkeypatch.setenv(name, value)
    return boto3.session.Session()


@pytest.mark.usefixtures("configured")
def test_session_token_of_unknown_end_is_refused_unless_its_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    session = with_keys(monkeypatch, AWS_SESSION_TOKEN="token")
    with pytest.raises(CredentialsTooShort, match="--credentials-last MINUTES"):
        lifetime(session)
    assert lifetime(session, NOW).until == NOW


@pytest.mark.usefixtures("configured")
def test_access_key_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lifetime(with_keys(monkeypatch)).until is None


@pytest.mark.usefixtures("configured")
def test_end_that_the_environment_states_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + HOUR
    session = with_keys(monkeypatch, AWS_SESSION_TOKEN="token", AWS_CREDENTIAL_EXPIRATION=until.isoformat())
    assert lifetime(session).until == until


@pytest.mark.parametrize(("renewed", "until"), [("", datetime(2026, 11, 28, 13, 30, tzinfo=UTC)), ("company", None)])
def test_login_that_cannot_be_renewed_ends_with_its_token(
    configured: Path, renewed: str, until: datetime | None
) -> None:
    start = "https://company.awsapps.com/start"
    profile = f"sso_start_url = {start}\nsso_region = eu-west-1\n"
    account = "sso_account_id = 123456789012\nsso_role_name = Admin\n"
    if renewed:
        configured.write_text(
            f"[default]\nsso_session = company\n{account}[sso-session company]\n{profile}"
            "sso_registration_scopes = sso:account:access\n"
        )
    else:
        configured.write_text(f"[default]\n{profile}{account}")
    token = configured.parent / f"{sha1(start.encode(), usedforsecurity=False).hexdigest()}.json"
    token.write_text(json.dumps({"accessToken": "x", "expiresAt": "2026-11-28T13:30:00UTC"}))
    assert lifetime(boto3.session.Session()).until == until


def test_credentials_of_a_process_renew_themselves(configured: Path) -> None:
    until = (datetime.now(UTC) + HOUR).isoformat()
    said = json.dumps(
        {"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "t", "Expiration": until}
    )
    program = configured.parent / "process.py"
    program.write_text(f"print({said!r})")
    configured.write_text(f"[default]\nregion = eu-west-1\ncredential_process = {sys.executable} {program}\n")
    found = lifetime(boto3.session.Session())
    assert found.until is None
    assert "custom-process" in str(found)


def test_credentials_that_end_before_the_run_are_refused_with_both_times() -> None:
    last = Lifetime(NOW + HOUR, "the credentials last as you said")
    check_they_last(last, HOUR, NOW)
    with pytest.raises(CredentialsTooShort, match="that is 60 minutes, and this run needs 150"):
        check_they_last(last, 2.5 * HOUR, NOW)
    check_they_last(Lifetime(None, "they renew themselves"), 24 * HOUR, NOW)


def test_the_cdk_gets_the_credentials_of_the_moment() -> None:
    issued = iter(range(1, 100))

    def renew() -> dict[str, str]:
        number = next(issued)
        soon = datetime.now(UTC) + timedelta(minutes=5)  # so short that the next look renews them
        return {
            "access_key": f"key-{number}",
            "secret_key": "s",
            "token": f"token-{number}",
            "expiry_time": soon.isoformat(),
        }

    class Session:
        made = RefreshableCredentials.create_from_metadata(renew(), renew, "assume-role")

        def get_credentials(self) -> RefreshableCredentials:
            return self.made

    account = Account("123456789012", "eu-west-1", Session())
    first, second = account.environment, account.environment
    assert first["AWS_ACCESS_KEY_ID"] != second["AWS_ACCESS_KEY_ID"]
    assert second["AWS_SESSION_TOKEN"].removeprefix("token") == second["AWS_ACCESS_KEY_ID"].removeprefix("key")


def test_an_access_keys_environment_has_no_session_token() -> None:
    class Session:
        def get_credentials(self) -> Credentials:
            return Credentials("key", "secret")

    assert "AWS_SESSION_TOKEN" not in Account("123456789012", "eu-west-1", Session()).environment


@pytest.mark.parametrize(
    ("config", "environment", "says"),
    [
        ("", {"AWS_PROFILE": "missing"}, "The config profile \\(missing\\) could not be found"),
        ("[default]\nregion = eu-west-1\n", {}, "there are no AWS credentials"),
        (
            LOGIN,
            {},
            "SSO",
        ),
        ("[default]\nregion = eu-west-1\ncredential_process = /nonexistent/broker\n", {}, "cannot be used"),
    ],
)
def test_credentials_that_do_not_work_are_one_line_and_exit_2(
    configured: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    config: str,
    environment: dict[str, str],
    says: str,
) -> None:
    configured.write_text(config)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(configured.parent))
    assert main(["--yes"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(says, said)


def test_expired_token_is_one_line() -> None:
    refusal = {"Error": {"Code": "ExpiredToken", "Message": "The security token included in the request is expired"}}
    with pytest.raises(NotReady, match="security token included in the request is expired"), answered():
        raise ClientError(refusal, "GetCallerIdentity")  # type: ignore[arg-type]
