"""The Dispatcher port over Step Functions: executions of the lease workers' state machine, with a few items each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sublet.decisions.manager.packing import WorkerItem, executions
from sublet.decisions.manager.worker_item_json import item_to_json

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

INPUT_BYTES_MAX = 240_000
"""Step Functions limits an execution's input to 256 KiB; the state machine adds a little."""


class StepFunctionsDispatcher:
    """The Dispatcher port. An execution's name is derived from its items, so a repeated call starts nothing twice."""

    def __init__(self, client: SFNClient, state_machine_arn: str) -> None:
        self._client = client
        self._state_machine_arn = state_machine_arn

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        for group in executions(items):
            for part in _fitting(group):
                self._start(part)

    def _start(self, items: Sequence[WorkerItem]) -> None:
        try:
            self._client.start_execution(
                stateMachineArn=self._state_machine_arn, name=_name(items), input=execution_input(items)
            )
        except self._client.exceptions.ExecutionAlreadyExists:
            return  # our own earlier call, whose response was lost; the execution has ended since


def execution_input(items: Sequence[WorkerItem]) -> str:
    """`{"items": [...]}`, as compact JSON."""
    return json.dumps({"items": [item_to_json(item) for item in items]}, separators=(",", ":"))


def _fitting(items: Sequence[WorkerItem]) -> Iterator[Sequence[WorkerItem]]:
    """Halves the items until each part's input is within the limit."""
    if len(items) <= 1 or len(execution_input(items).encode()) <= INPUT_BYTES_MAX:
        yield items
        return
    half = len(items) // 2
    yield from _fitting(items[:half])
    yield from _fitting(items[half:])


def _name(items: Sequence[WorkerItem]) -> str:
    """Step Functions keeps an execution's name unique for 90 days; item ids are unique for ever."""
    digest = hashlib.sha256("\n".join(item.item_id for item in items).encode()).hexdigest()
    return f"tick-{digest[:40]}"
