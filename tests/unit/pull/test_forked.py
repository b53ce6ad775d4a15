"""A program that pulls is forked. It runs in a process of its own, since a test's process has other threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PATIENCE = 60
"""Seconds, for what takes one or two."""

WITHIN = """
import os, sys
from sublet import Context
from sublet.testing.memory import MemoryAccount

stream = Context(MemoryAccount()).create_stream("orders", shards=1)
stream.create_consumer("audit")
for _ in range(3):
    stream.put("a", b"data")

def refused(call):
    try:
        call()
    except RuntimeError as refusal:
        assert "forked" in str(refusal)
    else:
        raise AssertionError("it did not say so")

def in_child(of):
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    else:
        of()
        sys.exit(3)

def beside():
    refused(record.ack)
    refused(consumer.next)
    refused(messages.__next__)

def after():
    assert unused.next().ack()
    assert unused.settings.worker_id != its_id
    with stream.consumer("audit") as own:
        assert own.next().ack()

with stream.consumer("audit") as consumer, consumer.messages() as messages:
    record = next(messages)
    in_child(beside)
    assert record.ack()
unused = stream.consumer("audit")
its_id = unused.settings.worker_id
in_child(after)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_gets_an_error_ends_and_may_pull_for_itself() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHIN], timeout=PATIENCE, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
