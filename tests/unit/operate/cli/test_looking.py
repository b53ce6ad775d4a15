"""What a command says of a table that it looks at in passing."""

from __future__ import annotations

import dataclasses

import pytest
from sublet.errors import LeaseTableError
from sublet.operate.cli.monitor.hot import _sketches
from sublet.operate.cli.options.looking import with_sightings_if_there

from tests.doubles.engine_world import NO_WAITING, EngineWorld


class Refuses:
    def _refuse(self) -> None:
        raise LeaseTableError("not allowed: \x1b[2J")

    load = sketches = _refuse


def test_an_error_s_text_in_a_warning_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    ports = dataclasses.replace(EngineWorld(NO_WAITING).ports, sightings=Refuses(), sketches=Refuses())  # type: ignore[arg-type]
    with_sightings_if_there(ports)
    _sketches(ports)
    said = capsys.readouterr().err
    assert said.count("\\x1b[2J") == 2
    assert "\x1b" not in said
