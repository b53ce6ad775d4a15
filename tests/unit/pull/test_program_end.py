"""A program that ends without leaving its block releases its leases at its exit. Each runs in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE = 60
"""Seconds, for what takes one or two."""

PULLS = """
import multiprocessing.util
import sys

from sublet import Context
from sublet.testing.memory import MemoryAccount


def pull():
    stream = Context(MemoryAccount()).create_stream("orders", shards=1)
    stream.create_consumer("audit")
    stream.put("a", b"data")
    consumer = stream.consumer("audit")

    def tell():
        shards = consumer.info(positions=False).shards
        print([shard.owner for shard in shards], [shard.checkpoint.is_sequence_number for shard in shards], flush=True)

    multiprocessing.util.Finalize(None, tell, exitpriority=-1000)  # last of all
    kept.append(consumer.messages())
    assert next(kept[0]).ack()


kept = []
if __name__ == "__main__":
    if sys.argv[1] == "itself":
        pull()
    else:
        child = multiprocessing.get_context(sys.argv[1]).Process(target=pull)
        child.start()
        child.join()
"""


@pytest.mark.parametrize("process", ["itself", *multiprocessing.get_all_start_methods()])
def test_a_child_of_multiprocessing_does_so_though_it_skips_atexit(tmp_path: Path, process: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PULLS)
    ended = subprocess.run(
        [sys.executable, program, process], timeout=PATIENCE, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "[None] [True]\n", ended.stderr


INTERRUPTED = """
import os
import signal
import sys
import threading

from sublet import Context
from sublet.testing.memory import MemoryAccount

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins by ignoring it
stream = Context(MemoryAccount()).create_stream("orders", shards=1)
stream.create_consumer("audit")
stream.put("a", b"data")


def callback(record):
    is_once = sys.argv[1] == "1"
    while True:  # more than one until it ends, each long after the one before
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(1.5)
        if is_once:
            break
    print("acknowledged", record.ack(), flush=True)


with stream.consumer("audit", until_signalled="until_signalled" in sys.argv) as consumer:
    consumer.consume(callback).wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "option", "says", "status"),
    [
        (1, "", "acknowledged True\n", -signal.SIGINT),
        (1, "until_signalled", "acknowledged True\n", 0),
        (2, "until_signalled", "", 128 + signal.SIGINT),
    ],
)
def test_ctrl_c_lets_a_call_end_and_a_second_one_ends_the_process_at_once(
    signals: int, option: str, says: str, status: int
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(signals), option],
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == (says, status), ended.stderr
    if signals == 2:
        assert "ended at once: by a second signal, SIGINT; these leases are not released" in ended.stderr
        assert "shardId-000000000000" in ended.stderr
