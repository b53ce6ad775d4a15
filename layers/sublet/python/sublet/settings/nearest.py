"""The name that was meant, where one is not known: of a setting, an option, a context key."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sublet.errors import SettingsError

ALIKE = 0.8
"""Of difflib's ratio. At its default of 0.6 `tumbling_window` is taken for `maximum_batching_window`."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one that is meant: spelt otherwise (`batchsize`), mistyped (`windw`), or cut short where only one begins so
    (`failover`). None rather than a guess: a wrong name costs more than none.
    """
    by_plain = {_plain(each): each for each in known}
    meant = _plain(name)
    if meant in by_plain:
        return by_plain[meant]
    begin = [each for each in by_plain if each.startswith(meant)]
    if len(begin) == 1 and len(meant) >= 5:
        return by_plain[begin[0]]
    from difflib import get_close_matches  # noqa: PLC0415 -- 3 ms, which only a mistake needs to take

    close = get_close_matches(meant, by_plain, n=1, cutoff=ALIKE)
    return by_plain[close[0]] if close else None


def unknown(name: str, value: object, kind: str, known: Collection[str], prefix: str = "") -> SettingsError:
    """`kind`: what it should be one of, such as setting. With the name that was meant, or else all names. `prefix`: what all of
    them begin with, and the given one too, so that it makes no two of them alike.
    """
    if near := nearest(name.removeprefix(prefix), (each.removeprefix(prefix) for each in known)):
        return SettingsError(name, value, f"no such {kind}; did you mean {prefix}{near}?")
    return SettingsError(name, value, f"no such {kind}; the {kind}s are {', '.join(sorted(known))}")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
