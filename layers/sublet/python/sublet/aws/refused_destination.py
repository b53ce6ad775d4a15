"""What a failure destination's service refuses, as our own error."""

from __future__ import annotations

from typing import NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from sublet.aws.configuration_errors import NOT_CONFIGURED, not_configured
from sublet.errors import DestinationRefused

REFUSED = (ClientError, BotoCoreError)


def refused(what: str, problem: Exception) -> NoReturn:
    """Raises DestinationRefused, with what to do where the machine is not set up for AWS."""
    said = not_configured(problem) if isinstance(problem, NOT_CONFIGURED) else problem
    raise DestinationRefused(f"{what}: {said}") from problem
