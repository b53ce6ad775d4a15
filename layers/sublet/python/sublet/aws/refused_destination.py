"""A failure destination's AWS errors as DestinationRefused."""

from __future__ import annotations

from typing import NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from sublet.aws.configuration_errors import NOT_CONFIGURED, not_configured
from sublet.errors import DestinationRefused

REFUSED = (ClientError, BotoCoreError)


def refused(what: str, problem: Exception) -> NoReturn:
    """Raises DestinationRefused, with what to do if the machine is not configured for AWS."""
    said = not_configured(problem) if isinstance(problem, NOT_CONFIGURED) else problem
    raise DestinationRefused(f"{what}: {said}") from problem
