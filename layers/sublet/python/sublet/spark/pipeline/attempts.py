"""What holds for an attempt to write a batch, on every sink: when its files may go, and what ends it."""

from __future__ import annotations

from sublet.errors import SettingsError

ABANDONED_MILLIS = 3_600_000
"""How old an attempt is whose files may go. A younger one may be another driver's, which commits yet: a cluster can
start a driver while the one before still runs."""


def written_by_another_run(output: str) -> SettingsError:
    """The error of a run that finds that another one has committed. `output`: the pipeline's, or one of its tables."""
    return SettingsError("output", output, "another run of this pipeline has written it: run one at a time")
