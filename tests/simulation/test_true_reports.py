"""What owners report in their rows is true, and a report that is not is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from sublet.engine.session import lag

from tests.exploring import in_blocks
from tests.simulation.true_reports import report_truly


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", in_blocks(range(40), size=5, few=1))
def test_reports_are_true(seeds: Sequence[int]) -> None:
    found = {seed: report_truly(seed) for seed in seeds}
    broken = {seed: result.violation for seed, (result, _) in found.items() if result.violation}
    assert not broken, broken
    assert sum(said for _, said in found.values()) > len(seeds), "reports that could be false"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_owner_that_always_says_that_nothing_waits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "lag_of", lambda *known: (known[-1], timedelta(0)))
    violations = [report_truly(seed)[0].violation for seed in range(4)]
    assert any("says that nothing waited" in (violation or "") for violation in violations)
