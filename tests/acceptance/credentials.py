"""How long the caller's credentials last: a run that outlives them could not remove what it has created."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SSO_TOKENS = Path("~/.aws/sso/cache")
"""Where the AWS command line keeps what `aws sso login` got (botocore reads it there)."""


class CredentialsTooShort(Exception):
    """The credentials end before the run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """until: None if they do not end during a run, as far as can be known. how: why that is so."""

    until: datetime | None
    how: str

    def __str__(self) -> str:
        return f"{self.how}, until {self.until:%H:%M} UTC" if self.until else self.how


def lifetime(session: Any, said: datetime | None = None) -> Lifetime:
    """Looks without a call to AWS. `said`: what the caller knows. Raises CredentialsTooShort if nobody knows."""
    credentials = session.get_credentials()
    if said is not None:
        return Lifetime(said, "the credentials last as you said")
    expiry = getattr(credentials, "_expiry_time", None)
    if credentials.method == "env" and expiry is not None:  # this process's environment stays as it is
        return Lifetime(expiry, "the credentials are in the environment, with AWS_CREDENTIAL_EXPIRATION")
    if credentials.method == "sso" and (until := _login_ends(session)) is not None:
        return Lifetime(until, "the login of `aws sso login` lasts")
    if hasattr(credentials, "refresh_needed"):
        return Lifetime(None, f"the credentials renew themselves ({credentials.method})")
    if credentials.get_frozen_credentials().token is None:
        return Lifetime(None, "the credentials are an access key, which does not end")
    raise CredentialsTooShort(
        "the credentials have a session token, and AWS does not say when it ends: use a profile that renews itself, or "
        "say how long they last with --credentials-last MINUTES (AWS_CREDENTIAL_EXPIRATION is read too)"
    )


def check_they_last(found: Lifetime, run: timedelta, now: datetime) -> None:
    """Raises CredentialsTooShort."""
    if found.until is None or found.until - now >= run:
        return
    left = max((found.until - now) / timedelta(minutes=1), 0)
    raise CredentialsTooShort(
        f"{found}: that is {left:.0f} minutes, and this run needs {run / timedelta(minutes=1):.0f}, after which it "
        "could not remove what it has created. Log in again, for longer, or give fewer --idle-minutes"
    )


def _login_ends(session: Any) -> datetime | None:
    """When the login ends, if it cannot be renewed; a profile with `sso_session` can be."""
    profile: dict[str, str] = session._session.get_scoped_config()
    start = profile.get("sso_start_url")
    if start is None or "sso_session" in profile:
        return None
    name = hashlib.sha1(start.encode(), usedforsecurity=False).hexdigest()  # as botocore calls it
    token = SSO_TOKENS.expanduser() / f"{name}.json"
    text: str = json.loads(token.read_text())["expiresAt"]
    until = datetime.fromisoformat(text.replace("UTC", "Z"))
    return until if until.tzinfo else until.replace(tzinfo=UTC)
