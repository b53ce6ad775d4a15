"""What tests of several levels share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.local import EmbeddedAws
from infra.local import embedded_aws as start_embedded_aws


@pytest.fixture(scope="session")
def embedded_aws() -> Iterator[EmbeddedAws]:
    """One embedded AWS for the session, started by the first test that asks; each makes its own streams and tables."""
    with start_embedded_aws() as aws:
        yield aws
