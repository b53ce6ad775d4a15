"""What each phase of a session allows, and which phases follow it, as the whole table."""

from __future__ import annotations

import pytest
from sublet.engine.session.phase import ALLOWED, Phase, PhaseEvent, after

OPEN, R, L = Phase.OPENING, Phase.RUNNING, Phase.LEAVING
KO, K, KL = Phase.KEPT_UNHEARD, Phase.KEPT, Phase.KEPT_LEFT
RO, RR, RL = Phase.RECALLED_UNHEARD, Phase.RECALLED, Phase.RECALLED_LEFT
OVER = Phase.OVER

FOLLOWS = {
    # phase: ACQUIRED, RELEASING, KEPT, GIVEN_UP, GOES_ON, ENDED
    OPEN: (R, OPEN, KO, OPEN, OPEN, OVER),
    R: (R, L, K, R, R, OVER),
    L: (L, L, KL, L, L, OVER),
    KO: (KO, KO, KO, OPEN, OPEN, OVER),
    K: (K, K, K, R, R, OVER),
    KL: (KL, KL, KL, KL, R, OVER),
    RO: (RO, RO, RO, RO, RO, OVER),
    RR: (RR, RR, RR, RR, RR, OVER),
    RL: (RL, RL, RL, RL, RL, OVER),
    OVER: (OVER,) * 6,
}


@pytest.mark.parametrize("phase", Phase)
def test_phase_moves_by_the_table_on_each_event(phase: Phase) -> None:
    assert tuple(after(phase, event) for event in PhaseEvent) == FOLLOWS[phase]


@pytest.mark.parametrize(
    ("function", "phases"),
    [
        ("lease_acquired", {OPEN, R}),
        ("handle", {R}),
        ("shard_ended", {R}),
        ("lease_releasing", {R, RR}),
        ("lease_lost", set(Phase)),
    ],
)
def test_handler_function_is_allowed_in_its_phases_only(function: str, phases: set[Phase]) -> None:
    assert {phase for phase in Phase if function in ALLOWED[phase].calls} == phases


def test_handler_results_count_until_the_session_is_over() -> None:
    assert {phase for phase in Phase if not ALLOWED[phase].counts} == {KO, K, KL, OVER}


def test_a_recall_keeps_nothing_allows_nothing_more_and_stays() -> None:
    assert {phase: ALLOWED[phase].recalled for phase in Phase} == {
        OPEN: RO,
        R: RR,
        L: RL,
        KO: OVER,
        K: OVER,
        KL: OVER,
        RO: RO,
        RR: RR,
        RL: RL,
        OVER: OVER,
    }
    for allowed in ALLOWED.values():
        recalled = ALLOWED[allowed.recalled]
        assert not recalled.keeps
        assert recalled.calls <= allowed.calls
        assert recalled.counts <= allowed.counts
        assert recalled.recalled is allowed.recalled


def test_the_handler_hears_that_it_is_to_release_a_lease_once_at_most() -> None:
    """Within one session: after lease_releasing no event leads to a phase that allows it again, but for another
    session's.
    """
    within, seen, found = (
        set(PhaseEvent) - {PhaseEvent.GOES_ON},
        set[Phase](),
        {after(R, PhaseEvent.RELEASING)},
    )
    while found:
        seen |= found
        found = {after(phase, event) for phase in found for event in within} - seen
    assert not any("lease_releasing" in ALLOWED[phase].calls for phase in seen)
    assert not any("lease_releasing" in ALLOWED[ALLOWED[phase].recalled].calls for phase in seen)
