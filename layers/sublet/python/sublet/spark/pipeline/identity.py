"""Checks that an output and a checkpoint belong to the same pipeline. A table's positions mean something only for the
stream that its checkpoint reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from sublet.errors import SettingsError
from sublet.spark.pipeline.settings import Sink

MARK = "_pipeline.json"
"""The name of the mark's file, in the output and in the checkpoint."""

FORMAT = 2
"""The tables' format: each has positions. In that of sublet 0.2, format 1, batches have numbers alone."""

_TO_02 = " as of a newer sublet, which 0.2 cannot continue"
"""Follows the stream's name, so that 0.2 refuses the output by its own check of the stream, and shows this."""

NEEDS_ITS_OWN = "the output needs its own checkpoint; without that, start again with another output"


@dataclass(frozen=True, slots=True)
class PipelineIdentity:
    """What identifies a pipeline. `id` is unique to it."""

    id: str
    stream: str
    sink: Sink
    format: int = FORMAT

    @property
    def is_of_02(self) -> bool:
        return self.format < FORMAT

    def renewed(self) -> PipelineIdentity:
        return replace(self, format=FORMAT)

    def to_json(self) -> str:
        return json.dumps({"id": self.id, "stream": self.stream + _TO_02, "sink": self.sink, "format": self.format})

    @classmethod
    def from_json(cls, text: str) -> PipelineIdentity | None:
        """Reads a mark. None for other text, because a crash may have left part of one."""
        try:
            value = json.loads(text)
            stream = str(value["stream"]).removesuffix(_TO_02)
            return cls(str(value["id"]), stream, Sink(value["sink"]), int(value.get("format", 1)))
        except (ValueError, KeyError, TypeError):
            return None

    def is_same(self, other: PipelineIdentity | None) -> bool:
        """True if both are marks of one pipeline. A crash may have renewed only one of them."""
        return other is not None and replace(self, format=FORMAT) == replace(other, format=FORMAT)


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
    elif output is None or checkpoint is None or not output.is_same(checkpoint):
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
        return NEEDS_ITS_OWN
    if output is None:
        return "it belongs to another output: give that one, or a new checkpoint"
    return f"the output belongs to another checkpoint ({_described(output)}): give that one, or another output"
