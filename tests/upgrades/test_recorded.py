"""What users of 0.2 have written, typed, deployed and stored, against this version: it is all there, under its name.

tests/data/upgrades has it as recorded by 0.2's own code. A failure says what is gone. If that is meant, it is a change
of the kind that CHANGELOG.md names, old -> new, and `MEANT` says so too, with the reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.exploring import explores
from tests.rolling.rows import OLDER
from tests.upgrades.record import run_by, templates_of
from tests.upgrades.released import DATA, NOW, released_or_skipped

MEANT: dict[str, str] = {}
"""By what is gone, as a failure says it: why."""


def recorded(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def assert_nothing_is_gone(gone: Iterator[str]) -> None:
    unexpected = [each for each in gone if each.partition(":")[0] not in MEANT]
    assert not unexpected, "0.2 had, and this version has not:\n" + "\n".join(unexpected)


def missing(was: Any, is_now: Any, where: str) -> Iterator[str]:
    """What `was` has and `is_now` has not. More is allowed everywhere."""
    if isinstance(was, Mapping) and isinstance(is_now, Mapping):
        for name, value in was.items():
            if name not in is_now:
                yield f"{where} / {name}"
            else:
                yield from missing(value, is_now[name], f"{where} / {name}")
    elif isinstance(was, list) and isinstance(is_now, list):
        yield from (f"{where} / {each}" for each in was if each not in is_now)
    elif was != is_now:
        yield f"{where}: it was {was!r}, and is {is_now!r}"


def test_every_import_that_the_documents_of_0_2_show_still_works() -> None:
    """With a warning that says the new place, if it has moved."""
    names = recorded("names")
    failed = run_by(NOW, "import_names", given=list(names))
    assert_nothing_is_gone(f"{name}: {error}; shown in {names[name]}" for name, error in failed.items())


def test_every_command_option_setting_and_parameter_of_0_2_is_still_taken() -> None:
    assert_nothing_is_gone(missing(recorded("surface"), run_by(NOW, "surface"), ""))


@explores
@pytest.mark.slow
def test_template_keeps_recorded_stateful_and_named_resources_and_outputs() -> None:
    """Under its logical id: CloudFormation deletes what has another one, or refuses the name that exists."""
    assert_nothing_is_gone(missing(recorded("templates"), templates_of(NOW), "stack"))


def test_rows_and_offsets_of_0_2_are_read_and_written_again_as_they_were() -> None:
    """So 0.2 can read what this version makes of them."""
    stored = recorded("stored")
    assert_nothing_is_gone(missing(in_order(stored), run_by(NOW, "stored", given=stored), "stored"))


def test_rows_and_offsets_of_this_version_are_read_by_0_2() -> None:
    """An attribute that 0.2 does not know is kept. Offsets are strict: one that 0.2 drops would be lost by a
    rollback.
    """
    released, ours = released_or_skipped(), run_by(NOW, "own_stored")
    theirs, means = run_by(released, "stored", given=ours), run_by(NOW, "stored", given=ours)["means"]
    assert_nothing_is_gone(
        missing(in_order({**ours, "means": means}), theirs, "written by this version, as 0.2 has it")
    )


def test_writes_of_0_2_to_rows_of_this_version_go_where_they_should() -> None:
    """Its own code acquires, heartbeats, checkpoints and releases them, and loses no attribute by reading."""
    released, rows = released_or_skipped(), run_by(NOW, "own_stored")["rows"]
    done = subprocess.run(
        [sys.executable, "-c", OLDER],
        env=released.environment({}),
        input=json.dumps({"rows": rows, "to": ["4" * 55 + "9", 0]}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout)
    for name, row in rows.items():
        assert answers[name]["loses_nothing"], f"0.2 does not write the row {name} as it has read it"
        assert answers[name]["reads"]["checkpoint"].startswith(row["checkpoint"]["S"]), name
        assert answers[name]["writes"]["acquire"]["leaseOwner"] == {"S": "older-1"}, name


def in_order(stored: dict[str, Any]) -> dict[str, Any]:
    rows = {
        key: {name: {"SS": sorted(value["SS"])} if "SS" in value else value for name, value in row.items()}
        for key, row in stored["rows"].items()
    }
    return {**stored, "rows": rows}
