"""Suggestions for a misspelt name of a setting, an option or a context key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from sublet.errors import SettingsError

ALIKE = 0.8
"""The cutoff of difflib's ratio. At its default of 0.6, `tumbling_window` matches `maximum_batching_window`."""

NOT_KNOWN_ELSEWHERE: Mapping[str, str] = MappingProxyType({})


def nearest(name: str, known: Iterable[str], elsewhere: Mapping[str, str] = NOT_KNOWN_ELSEWHERE) -> str | None:
    """The known name for another spelling (`batchsize`), a typo (`windw`), or an unambiguous prefix (`failover`). None
    if unsure: a wrong suggestion is worse than none.

    elsewhere   known names by what other libraries call them; what names nothing in `known` is left out
    """
    by_plain = {_plain(each): each for each in known}
    meant = _plain(name)
    if meant in by_plain:
        return by_plain[meant]
    others = {_plain(other): _plain(ours) for other, ours in elsewhere.items() if _plain(ours) in by_plain}
    if meant in others:
        return by_plain[others[meant]]
    begin = [each for each in by_plain if each.startswith(meant)]
    if len(begin) == 1 and len(meant) >= 5:
        return by_plain[begin[0]]
    begin = [*begin, *{ours for other, ours in others.items() if other.startswith(meant)}]
    if len(begin) == 1 and len(meant) >= 10:
        return by_plain[begin[0]]
    swapped = [each for each in by_plain if sorted(each) == sorted(meant)]
    if len(swapped) == 1:
        return by_plain[swapped[0]]
    from difflib import get_close_matches  # noqa: PLC0415 -- takes 3 ms, needed only for a mistake

    close = get_close_matches(meant, by_plain, n=1, cutoff=ALIKE)
    return by_plain[close[0]] if close else None


def unknown(
    name: str,
    value: object,
    kind: str,
    known: Collection[str],
    prefix: str = "",
    elsewhere: Mapping[str, str] = NOT_KNOWN_ELSEWHERE,
) -> SettingsError:
    """The error for an unknown name. It suggests the nearest known name, or lists all.

    kind        what the name should be, such as "setting"
    prefix      a prefix that all names share, left out of the comparison
    elsewhere   as for `nearest`
    """
    if near := nearest(name.removeprefix(prefix), (each.removeprefix(prefix) for each in known), elsewhere):
        return SettingsError(name, value, f"no such {kind}; did you mean {prefix}{near}?")
    kinds = f"{kind[:-1]}ies" if kind.endswith("ty") else f"{kind}s"
    return SettingsError(name, value, f"no such {kind}; the {kinds} are {', '.join(sorted(set(known)))}")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
