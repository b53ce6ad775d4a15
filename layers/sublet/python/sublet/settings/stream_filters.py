"""Filters of single streams, in `filter_criteria` of an application of several.

`{"Filters": [...], "Streams": {"orders": {"Filters": [...]}, "audit-*": null}}`: a key names streams as a part of the
setting `streams` does, but not by tag, since a worker knows a stream's name and not its tags. The first key that names
a stream decides; `Filters` beside them is for all other streams. null, or no `Filters` beside them: all records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from sublet.errors import SettingsError
from sublet.settings.filter_criteria import NAME, patterns_of
from sublet.settings.stream_choice import StreamChoice, StreamSelector

FILTERS, STREAMS = "Filters", "Streams"


def check_criteria(text: str, streams: StreamChoice | None) -> None:
    """Raises SettingsError for criteria that no application of these streams can have; None: an application of one
    stream.
    """
    given = _object(text)
    if given is None or STREAMS not in given:
        patterns_of(text)
        return
    if streams is None:
        raise SettingsError(NAME, STREAMS, "only with the setting streams: one stream's filter has Filters alone")
    _check_keys(given, {FILTERS, STREAMS}, text)
    if FILTERS in given:
        patterns_of(json.dumps({FILTERS: given[FILTERS]}))
    by_stream = given[STREAMS]
    if not isinstance(by_stream, dict) or not by_stream:
        raise SettingsError(NAME, by_stream, f'{STREAMS} with an object: {{"orders": {{"{FILTERS}": [...]}}}}')
    for name, criteria in by_stream.items():
        _check_named(name, streams)
        if criteria is not None:
            _check_keys(criteria, {FILTERS}, name)
            patterns_of(json.dumps(criteria))


def criteria_of(text: str, account: str, stream: str, epoch: int) -> str | None:
    """The criteria for one stream's records, as an application of that stream alone would have them; None: all
    records.
    """
    given = _object(text)
    if given is None or STREAMS not in given:
        return text
    for name, criteria in given[STREAMS].items():
        if StreamSelector(name).names(account, stream, epoch):
            return None if criteria is None else json.dumps(criteria)
    return json.dumps({FILTERS: given[FILTERS]}) if FILTERS in given else None


def criteria_of_streams(text: str, streams: Iterable[tuple[str, str, int]]) -> str:
    """The criteria for these streams alone, each an account, a name and a creation epoch."""
    given = _object(text)
    if given is None or STREAMS not in given:
        return text
    found = {stream: criteria_of(text, account, stream, epoch) for account, stream, epoch in streams}
    of_streams = {stream: None if each is None else json.loads(each) for stream, each in found.items()}
    return json.dumps({STREAMS: of_streams})


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object; None for anything else, which `patterns_of` refuses in its own words."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def _check_keys(given: object, allowed: set[str], where: str) -> None:
    if not isinstance(given, Mapping) or not given.keys() <= allowed:
        raise SettingsError(NAME, where, f"an object with {' and '.join(sorted(allowed))}, and nothing else")


def _check_named(name: str, streams: StreamChoice) -> None:
    """A misspelt name would leave its stream unfiltered."""
    if not StreamSelector.is_one(name) or StreamSelector(name).tag is not None:
        raise SettingsError(
            NAME,
            name,
            f"a name, ARN or name pattern in {STREAMS}: a worker knows a stream's name and not its tags",
        )
    if not streams.tags and not any(_may_meet(StreamSelector(name), each) for each in streams.selectors):
        raise SettingsError(NAME, name, f"a stream of the setting streams, which is {streams}")


def _may_meet(filtered: StreamSelector, chosen: StreamSelector) -> bool:
    """Whether a stream may be named by both."""
    match filtered.exact_name, chosen.exact_name:
        case None, None:
            return True
        case None, str(name):
            return fnmatchcase(name, filtered.what)
        case str(name), None:
            return fnmatchcase(name, chosen.what)
        case one, other:
            return one == other
