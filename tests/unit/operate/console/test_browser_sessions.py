"""Links and sessions end: by use, by time, and by number."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

from sublet.operate.console.browser_sessions import LASTS, LINK_LASTS, SESSIONS_MAX, SignIn
from sublet.testing.memory import FakeClock

SECOND = timedelta(seconds=1)


def sign_in(clock: FakeClock, token: str | None = None) -> SignIn:
    numbers = count()
    return SignIn(clock, lambda: f"secret-{next(numbers)}", token)


def test_a_link_ends_after_a_quarter_of_an_hour() -> None:
    clock = FakeClock()
    access = sign_in(clock)
    early, late = access.new_link(), access.new_link()
    clock.advance(LINK_LASTS - SECOND)
    assert access.open_link(early) is not None
    clock.advance(SECOND)
    assert access.open_link(late) is None


def test_a_session_ends_after_twelve_hours_even_if_the_wall_clock_is_set_back() -> None:
    clock = FakeClock()
    access = sign_in(clock)
    session = access.open_link(access.new_link())
    assert session is not None
    clock.jump(-timedelta(days=1))
    clock.advance(LASTS - SECOND)
    assert access.session(session.key) == session
    clock.advance(SECOND)
    assert access.session(session.key) is None


def test_the_key_of_a_form_is_not_the_cookie() -> None:
    access = sign_in(FakeClock())
    session = access.open_link(access.new_link())
    assert session is not None
    assert access.session(session.form_key) is None


def test_the_oldest_session_gives_way_to_one_too_many() -> None:
    access = sign_in(FakeClock(), "the-token")
    sessions = [access.sign_in("the-token") for _ in range(SESSIONS_MAX + 1)]
    kept = [session for session in sessions if session is not None and access.session(session.key) is not None]
    assert kept == sessions[1:]


def test_token_alone_signs_in_and_nothing_does_without_one() -> None:
    assert sign_in(FakeClock(), "the-token").sign_in("the-tokem") is None
    assert sign_in(FakeClock(), "the-token").sign_in("ä") is None
    assert sign_in(FakeClock()).sign_in("") is None
