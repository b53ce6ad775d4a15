"""A short `make demo`, as a user runs it: the whole stack on the embedded AWS, and nothing left running."""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.demo_process import demo_process
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

started_demo = partial(demo_process, sys.executable, "demo")


@explores
def test_twenty_thousand_events_go_through_a_split_and_a_merge_and_the_proof_holds(tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    with started_demo(tmp_path / "output", "--svg", str(picture)) as demo:
        assert demo.wait(380) == 0, demo.said
    assert "20,000 of 20,000 events handled" in demo.said
    assert "0 events missing" in demo.said
    assert "shard 1 is split into 4 and 5" in demo.said
    assert "shards 2 and 3 are merged into 6" in demo.said
    drawn = picture.read_text()
    assert drawn.startswith("<svg")
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")


@pytest.mark.parametrize(
    ("asked", "at"),
    [(signal.SIGTERM, "cdk deploy"), pytest.param(signal.SIGINT, "events flow", marks=explores)],
)
def test_stopping_it_leaves_nothing_running(tmp_path: Path, asked: signal.Signals, at: str) -> None:
    with started_demo(tmp_path / "output", events=200_000) as demo:
        demo.wait_until_it_says(at, within=120)
        assert len(demo.processes()) >= 4, "two guards, two servers"
        demo.stop(asked)


def test_a_number_of_events_that_makes_no_sense_is_refused_at_once(tmp_path: Path) -> None:
    with started_demo(tmp_path / "output", events=12) as demo:
        assert demo.wait(30) == 2
    assert "is not a whole number from 1000 to 336776" in demo.said
