"""Which pipeline an output and a checkpoint belong to. Batch numbers mean something only within one checkpoint: with

another one's, the numbers begin again, and batches already there would be taken for attempts at the new ones."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sublet.errors import SettingsError
from sublet.pipeline.settings import Sink

MARK = "_pipeline.json"
"""The mark's file, in the output and in the checkpoint."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`id`: any text that no other pipeline has."""

    id: str
    stream: str
    sink: Sink

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Mark | None:
        """None for what is no mark: a crash may have left part of one."""
        try:
            value = json.loads(text)
            return cls(str(value["id"]), str(value["stream"]), Sink(value["sink"]))
        except (ValueError, KeyError, TypeError):
            return None


def settle(fresh: Mark, output: Mark | None, checkpoint: Mark | None, in_use: bool) -> Mark:
    """The mark to have in both places: theirs if they belong together, `fresh` if neither is in use yet.

    Raises SettingsError for two that do not belong together. `in_use`: the output holds tables, or the checkpoint positions.
    """
    if output is None and checkpoint is None and not in_use:
        return fresh
    if output is not None and checkpoint is None and not in_use:
        settled = output
    elif output is None or output != checkpoint:
        raise SettingsError("checkpoint", _described(checkpoint), _refusal(output, checkpoint))
    else:
        settled = output
    for name, ours, theirs in (("stream", fresh.stream, settled.stream), ("sink", fresh.sink, settled.sink)):
        if ours != theirs:
            raise SettingsError(name, str(ours), f"the output holds {theirs}: give another output for it")
    return settled


def _described(mark: Mark | None) -> str | None:
    return None if mark is None else f"{mark.stream} into {mark.sink} ({mark.id})"


def _refusal(output: Mark | None, checkpoint: Mark | None) -> str:
    if output is None and checkpoint is None:
        return "it, or the output, is in use already, and not by this pipeline: give new ones"
    if checkpoint is None:
        return "the output's own checkpoint is wanted; without it, begin anew in another output"
    if output is None:
        return "it belongs to another output: give that one, or a new checkpoint"
    return (
        f"the output belongs to another checkpoint ({_described(output)}): give that one, or another output"
    )
