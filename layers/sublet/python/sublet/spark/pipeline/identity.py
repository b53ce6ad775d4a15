"""Checks that an output and a checkpoint belong to the same pipeline. Batch numbers mean something only within one
checkpoint. With another checkpoint they start again, and existing batches would look like earlier attempts at the new
ones.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sublet.errors import SettingsError
from sublet.spark.pipeline.settings import Sink

MARK = "_pipeline.json"
"""The name of the mark's file, in the output and in the checkpoint."""


@dataclass(frozen=True, slots=True)
class PipelineIdentity:
    """What identifies a pipeline. `id` is unique to it."""

    id: str
    stream: str
    sink: Sink

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PipelineIdentity | None:
        """Reads a mark. None for other text, because a crash may have left part of one."""
        try:
            value = json.loads(text)
            return cls(str(value["id"]), str(value["stream"]), Sink(value["sink"]))
        except (ValueError, KeyError, TypeError):
            return None


def settle(
    fresh: PipelineIdentity, output: PipelineIdentity | None, checkpoint: PipelineIdentity | None, in_use: bool
) -> PipelineIdentity:
    """The mark for both places: the existing one if they belong together, `fresh` if neither is in use.

    Raises SettingsError if they do not belong together. `in_use`: the output has tables, or the checkpoint has
    positions.
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
            raise SettingsError(name, str(ours), f"the output contains {theirs}: give another output")
    return settled


def _described(mark: PipelineIdentity | None) -> str | None:
    return None if mark is None else f"{mark.stream} into {mark.sink} ({mark.id})"


def _refusal(output: PipelineIdentity | None, checkpoint: PipelineIdentity | None) -> str:
    if output is None and checkpoint is None:
        return "it, or the output, is already used by something else: give new ones"
    if checkpoint is None:
        return "the output needs its own checkpoint; without that, start again with another output"
    if output is None:
        return "it belongs to another output: give that one, or a new checkpoint"
    return f"the output belongs to another checkpoint ({_described(output)}): give that one, or another output"
