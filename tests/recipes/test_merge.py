"""Two streams put into a third on the embedded AWS: nothing is lost, and a crash's repetitions are told by their
origin."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from sublet import Consumer

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.recipes.conftest import create_stream
from tests.recipes.recipe_runs import RECIPES, RecipeRuns, put

pytestmark = [pytest.mark.emulator, explores, pytest.mark.timeout(300)]
KEYS = 4


def numbered(name: str, numbers: range) -> list[tuple[str, bytes]]:
    return [(f"key-{number % KEYS}", json.dumps({"of": name, "number": number}).encode()) for number in numbers]


def test_streams_are_merged_in_each_key_s_order_when_killed_before_the_checkpoint(
    aws: EmbeddedAws, stream: str, tmp_path: Path
) -> None:
    sources = [f"{stream}-eu", f"{stream}-us"]
    for source in sources:
        create_stream(aws, source)
        put(aws, source, numbered(source, range(20)))
    settings = {"streams": f"{stream}-*", "batch_size": "5"}
    runs = RecipeRuns(aws, stream, RECIPES / "merge", "merge:handle", tmp_path, {"TARGET": stream}, settings)
    runs.run_until_killed()
    for source in sources:
        put(aws, source, numbered(source, range(20, 40)))

    target = Consumer(f"{stream}-reader", stream)
    target.create()
    come: list[dict[str, Any]] = []

    def all_came() -> bool:
        for record in target.fetch(1000, expires=2):
            come.append(json.loads(record.data))
            record.ack()
        return len({(each["data"]["of"], each["data"]["number"]) for each in come}) == 2 * 40

    runs.run_until(all_came)
    of_origin: dict[tuple[str, str], list[int]] = defaultdict(list)
    last: dict[str, tuple[int, int]] = {}
    for each in come:
        origin, data = each["origin"], each["data"]
        place = int(origin["sequence_number"]), origin["sub_sequence_number"]
        if place > last.get(origin["shard"], (0, 0)):
            of_origin[data["of"], f"key-{data['number'] % KEYS}"].append(data["number"])
        last[origin["shard"]] = max(place, last.get(origin["shard"], (0, 0)))
    expected = {(source, f"key-{key}"): list(range(key, 40, KEYS)) for source in sources for key in range(KEYS)}
    assert of_origin == expected
    assert len(come) > 2 * 40, "some came again"
