"""The plugin that pytest finds if sublet is installed. It imports nothing of sublet before a test uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sublet.testing.memory_consumer import MemoryConsumer


MARKER = "memory_consumer"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(shards=2, **settings): arguments of the fixture of this name, such as "
        "handler_contract='lambda_event'",
    )


@pytest.fixture
def memory_consumer(request: pytest.FixtureRequest) -> MemoryConsumer:
    """An application in memory, on a stream of two shards: `memory_consumer.put(b"...")`, then `.consume(handler)`.

    Its settings come from the marker of the same name on the test, its class or its module; the nearest wins.
    """
    from sublet.testing.memory_consumer import MemoryConsumer

    given: dict[str, Any] = {"shards": 2}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        given |= marker.kwargs
    return MemoryConsumer(**given)
