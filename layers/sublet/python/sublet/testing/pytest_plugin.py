"""What pytest finds by itself where sublet is installed. It loads nothing of sublet before a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sublet.testing.memory_consumer import MemoryConsumer


@pytest.fixture
def memory_consumer() -> MemoryConsumer:
    """An application over memory, on a stream of two shards: `memory_consumer.put(b"...")`, then `.consume(handler)`."""
    from sublet.testing.memory_consumer import MemoryConsumer

    return MemoryConsumer(shards=2)
