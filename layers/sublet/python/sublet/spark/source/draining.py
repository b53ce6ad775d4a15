"""A run that reads what is available and ends, on any release of Spark: the source's option `availableNow`, and
`drain`."""

from __future__ import annotations

from typing import Protocol


class Draining(Protocol):
    """A StreamingQuery, classic or Connect's."""

    def processAllAvailable(self) -> None: ...  # noqa: N802

    def stop(self) -> None: ...


def drain(query: Draining) -> None:
    """Wait until the query has read what was available when it began, and end it.

    For a source with the option `availableNow`, and no trigger or `processingTime`; without the option, a busy stream
    never ends. Raises the query's failure; what was committed stays committed.
    """
    try:
        query.processAllAvailable()
    finally:
        query.stop()
