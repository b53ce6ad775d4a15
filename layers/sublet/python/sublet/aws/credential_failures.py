"""Names the failures of a credential provider that botocore lets through as they are.

A token's file that is away (OSError), a `credential_process` that prints no JSON (ValueError), `aws login` that has
expired, and refreshed credentials that are past their time by this machine's clock (RuntimeError) say the same: there
are no credentials for now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from botocore.exceptions import ClientError, CredentialRetrievalError

from sublet.aws.configuration_errors import NOT_CONFIGURED
from sublet.aws.faults import CONNECTION_FAILED
from sublet.aws.kinesis.cut_replies import AnyClient
from sublet.errors import SubletError

_NAMED = (*NOT_CONFIGURED, *CONNECTION_FAILED, ClientError, SubletError)

C = TypeVar("C", bound=AnyClient)


@contextmanager
def named_provider_failures() -> Iterator[None]:
    """Raises CredentialRetrievalError for what a provider raises, unless it has a name of its own."""
    try:
        yield
    except _NAMED:
        raise
    except Exception as failure:
        text = f"{type(failure).__name__}: {failure}"
        raise CredentialRetrievalError(provider="of this machine", error_msg=text) from failure


def name_provider_failures(client: C) -> C:
    """Make each call of the client fetch its credentials before botocore does, which then has them. The event is the
    first of a call: a service's endpoint may depend on the account, which comes with the credentials.
    """
    signer: Any = getattr(client, "_request_signer", None)
    credentials: Any = getattr(signer, "_credentials", None)

    def fetch(**_: Any) -> None:
        with named_provider_failures():
            credentials.get_frozen_credentials()

    if credentials is not None:
        client.meta.events.register("provide-client-params", fetch, unique_id="sublet-credentials")
    return client
