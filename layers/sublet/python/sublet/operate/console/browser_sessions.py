"""Decides who may open the console: by links that work once, or a token if there is one, and the sessions that these
begin. People whom a trusted proxy has signed in have a session each, without a cookie.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

from sublet.ports import Clock

LASTS = timedelta(hours=12)
LINK_LASTS = timedelta(minutes=15)
SESSIONS_MAX = 100
TOKEN_LENGTH_MIN = 20


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser's session. `key` is its cookie. `form_key` is in every form, so that another site cannot send one
    (CSRF).
    """

    key: str
    form_key: str
    begun: datetime


class SignIn:
    """Signs browsers in. Thread-safe.

    secret  returns a new text that cannot be guessed
    token   the token with which a person may sign in, as often as they like; None: only links work
    """

    def __init__(self, clock: Clock, secret: Callable[[], str], token: str | None = None) -> None:
        self._clock = clock
        self._secret = secret
        self._token = token
        self._lock = Lock()
        self._links: dict[str, datetime] = {}
        self._sessions: dict[str, BrowserSession] = {}
        self._of_people: dict[str, BrowserSession] = {}

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def new_link(self) -> str:
        """Returns a link that `open_link` accepts once, within LINK_LASTS."""
        link = self._secret()
        with self._lock:
            self._links[link] = self._clock.steady()
        return link

    def open_link(self, link: str) -> BrowserSession | None:
        with self._lock:
            made = self._links.pop(link, None)
            is_good = made is not None and self._clock.steady() - made < LINK_LASTS
            return self._begin() if is_good else None

    def sign_in(self, token: str) -> BrowserSession | None:
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        with self._lock:
            return self._begin()

    def session(self, key: str) -> BrowserSession | None:
        with self._lock:
            found = self._sessions.get(key)
            if found is not None and self._clock.steady() - found.begun >= LASTS:
                del self._sessions[key]
                return None
            return found

    def session_of(self, person: str) -> BrowserSession:
        """The session of a person whom the proxy has signed in: it has the key of their forms."""
        with self._lock:
            found = self._of_people.pop(person, None)
            if found is None or self._clock.steady() - found.begun >= LASTS:
                found = BrowserSession(self._secret(), self._secret(), self._clock.steady())
            self._of_people[person] = found  # the last in the order, so that the longest unused goes first
            while len(self._of_people) > SESSIONS_MAX:
                del self._of_people[next(iter(self._of_people))]
            return found

    def end(self, session: BrowserSession) -> None:
        with self._lock:
            self._sessions.pop(session.key, None)

    def _begin(self) -> BrowserSession:
        session = BrowserSession(self._secret(), self._secret(), self._clock.steady())
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session.key] = session
        return session
