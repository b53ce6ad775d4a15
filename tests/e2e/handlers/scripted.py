"""A handler for an event source mapping that answers according to SCRIPT, and writes each of its calls to the file
RECORD.

It only imports the standard library: behind the mapping it is a function of this one file.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SENTINEL = 99
"""The number of the record that is put when all is over; it always succeeds."""


def handler(event: dict[str, Any], _context: object) -> object:
    record = Path(os.environ["RECORD"])
    before = len(record.read_text().splitlines()) if record.exists() else 0
    named = {number(each): each["kinesis"]["sequenceNumber"] for each in event["Records"]}
    with record.open("a") as calls:
        calls.write(json.dumps({"numbers": list(named), "event": event}) + "\n")
    said = None if list(named) == [SENTINEL] else answer(json.loads(os.environ["SCRIPT"]), list(named), before)
    if said == "raises":
        raise LookupError("as told")
    if isinstance(said, list):
        return {"batchItemFailures": [{"itemIdentifier": named[each]} for each in said]}
    return said


def number(record: dict[str, Any]) -> int:
    return int(json.loads(base64.b64decode(record["kinesis"]["data"]))["n"])


def answer(script: dict[str, Any], batch: Sequence[int], before: int) -> Any:
    """The answer for the records with these numbers, after that many calls: "raises", the numbers of failed records,
    or a return value."""
    match script:
        case {"raises_with": poison}:
            return "raises" if set(poison) & set(batch) else None
        case {"raises_first": times}:
            return "raises" if before < times else None
        case {"names": failed}:
            return [each for each in failed if each in batch]
        case {"names_in_turn": turns}:
            return turns[before] if before < len(turns) else None
        case {"returns": value}:
            return value
        case _:
            return None
