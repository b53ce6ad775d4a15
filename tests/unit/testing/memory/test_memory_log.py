"""The log in memory refuses what Python's logging refuses, so that a test meets it before an operator does."""

from __future__ import annotations

import pytest
from sublet.aws.log import PowertoolsLog
from sublet.ports import Log
from sublet.system.python_log import PythonLog
from sublet.testing.memory import MemoryLog


@pytest.mark.parametrize(
    "log", [MemoryLog(), PowertoolsLog("test"), PythonLog("test")], ids=["memory", "powertools", "python"]
)
@pytest.mark.parametrize("name", ["name", "message", "module", "process", "exc_info"])
def test_a_field_of_a_reserved_name_is_refused(log: Log, name: str) -> None:
    with pytest.raises((KeyError, TypeError)):
        log.warning("batch left in place", **{name: "x"})
