"""How a step ends otherwise than well, and what several files of steps use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError

from tests.acceptance.stage import Consumer, Stage

PATIENCE = 300
"""Seconds until records put are handled: a bound for failures."""


class NotOffered(Exception):
    """The emulator lacks the feature; on a real account this is a failure."""


class NotAsked(Exception):
    """The step needs something of the caller that was not given. The message says what."""


class NotAsItShouldBe(Exception):
    """AWS or sublet did something wrong."""


def main_of(stage: Stage) -> Consumer:
    if stage.main is None:
        raise NotAsItShouldBe("the consumer was not deployed")
    return stage.main


def offered(stage: Stage, call: Callable[[], Any]) -> Any:
    """Returns the call's reply. Raises NotOffered if it is refused on an emulator."""
    try:
        return call()
    except (ClientError, ParamValidationError) as problem:
        if stage.plan.is_dry:
            raise NotOffered(str(problem)) from problem
        raise


def only_on_aws(stage: Stage, why: str) -> None:
    """Raises NotOffered on an emulator."""
    if stage.plan.is_dry:
        raise NotOffered(why)
    raise NotAsItShouldBe(why)
