"""Finds an offset in an entry of Spark's offset log. Pure.

An entry has its format's version in the first line, Spark's own metadata in the second, and then a line for each source
of the query:

    v1   the source's offset as JSON, or `-` for a source without one
    v2   the same after the source's name and a colon; a source without a name has its number. Written from 4.1 on for
         `spark.sql.streaming.offsetLog.formatVersion=2`, and for queries whose sources have names
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from sublet.errors import OffsetMalformed
from sublet.spark.plan.offsets import Offset, offset_from_json, offset_to_json

_LINES_OF_SPARK = 2


def _whole(line: str) -> str:
    return line


def _after_name(line: str) -> str:
    return line.partition(":")[2]


_OFFSET_TEXT: Mapping[str, Callable[[str], str]] = {"v1": _whole, "v2": _after_name}


def has_offset(entry: str, wanted: Offset) -> bool | None:
    """True if the entry has this offset, for whichever source. None if the entry is in a format that is not known."""
    found = _offsets(entry)
    return None if found is None else offset_to_json(wanted) in map(offset_to_json, found)


def offset_of(entry: str) -> Offset | None:
    """The entry's first offset of ours; None if it has none, or is in a format that is not known."""
    return next(iter(_offsets(entry) or ()), None)


def _offsets(entry: str) -> list[Offset] | None:
    lines = entry.splitlines()
    text_of = _OFFSET_TEXT.get(lines[0].strip() if lines else "")
    if text_of is None:
        return None
    found = (_offset_in(text_of(line)) for line in lines[_LINES_OF_SPARK:])
    return [offset for offset in found if offset is not None]


def _offset_in(text: str) -> Offset | None:
    """Returns an offset of ours without what else the text has in it; None for another source's."""
    try:
        return offset_from_json(json.loads(text))
    except (ValueError, OffsetMalformed):
        return None
