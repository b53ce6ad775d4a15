"""KCL's AggregatorUtil and ours on the same stream records: `python -m tests.interop.deaggregation [--count 4000]
[--seed N]`.

They differ, to the byte, only for an aggregate with an invalid user record. sublet delivers the stream record
unchanged, as one plain record, and counts it. docs/algorithm.md also tells users what Java does:

| the first invalid user record has | Java delivers |
|---|---|
| a table index that points nowhere (Java reads its lowest 32 bits: 4294967296 is 0) | those before it |
| an explicit hash key that BigInteger does not read | those before it |
| one that BigInteger reads, but Kinesis does not: a sign, another script's digits, more than 39 digits | it too, by
its value |

and none at all if one before it, or it by its value, lies outside the shard's hash range. `java_gives` applies this
to an aggregate as we read it, and Java is checked against that; if everything is valid, so are we.

The other difference is which messages are corrupt (java_protobuf.py): one with a tag or a length beyond 32 bits is a
plain record to sublet, while Java reads its lowest 32 bits.
"""

from __future__ import annotations

import argparse
import base64
import re
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside, hash_key
from sublet.protocol.kpl_format import Contents, java_text, message_of, read_aggregate
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HashKeyRange

from tests.interop.aggregates import Case, cases, framed
from tests.interop.build import Profile, build, command, problem
from tests.interop.java_protobuf import as_java_reads

COUNT = 4_000
OWN_KEY = "the record's own"
"""As java/Deaggregator.java names it."""
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = 120.0
_BIG_INTEGER = re.compile(r"[+-]?\d+")


class Given(NamedTuple):
    """A user record as delivered by either side."""

    sub_sequence_number: int
    partition_key: str | None
    explicit_hash_key: str | None
    data: bytes


class Ours(NamedTuple):
    records: list[Given]
    is_whole: bool
    """An invalid aggregate."""


def sublet_gives(case: Case) -> Ours:
    record = StreamRecord("1", case.data, OWN_KEY, MOMENT)
    found = deaggregate([record], KeysInside(case.hash_key_range))
    given = [
        Given(user.sub_sequence_number, user.partition_key, user.explicit_hash_key, user.data)
        for user in found.user_records
    ]
    return Ours(given, bool(found.delivered_whole))


def java_gives(case: Case) -> list[Given]:
    """By AggregatorUtil's rules, from the aggregate as we read it after Java's protobuf."""
    contents = read_aggregate(narrowed(case.data))
    if contents is None:
        return [Given(0, OWN_KEY, None, case.data)]
    given: list[Given] = []
    for number, (key, explicit, data) in enumerate(_rows(contents)):
        if key is None or (explicit is not None and not _BIG_INTEGER.fullmatch(explicit)):
            return given
        if not _contains(case.hash_key_range, key, explicit):
            return []
        given.append(Given(number, key, explicit, data))
    return given


def narrowed(data: bytes) -> bytes:
    """Replaces the message by what Java's protobuf reads, if its digest is correct."""
    place = message_of(data)
    if place is None:
        return data
    message = data[slice(*place)]
    read = as_java_reads(message)
    return data if read == message else framed(read)


def _rows(contents: Contents) -> Iterator[tuple[str | None, str | None, bytes]]:
    """Without a key from the first index on that points nowhere."""
    explicit_indexes = contents.explicit_hash_key_indexes or [None] * len(contents.data)
    explicit_table = [java_text(text) for text in contents.explicit_hash_key_table]
    rows = zip(contents.partition_key_indexes, explicit_indexes, contents.data, strict=True)
    for key_index, explicit_index, data in rows:
        key = _entry(contents.partition_key_table, key_index)
        explicit = None if explicit_index is None else _entry(explicit_table, explicit_index)
        is_sound = explicit_index is None or explicit is not None
        yield (key if is_sound else None, explicit, data)


def _entry(table: Sequence[str], index: int) -> str | None:
    """At the index as a Java int."""
    lowest = index & 0xFFFF_FFFF
    return table[lowest] if lowest < len(table) else None


def _contains(hash_key_range: HashKeyRange, key: str, explicit: str | None) -> bool:
    return hash_key(key, explicit) in hash_key_range


def java_gave(given: Iterable[Case], profile: Profile) -> list[list[Given] | str]:
    """For each case what Java delivered, or the class of its exception. One JVM for all of them."""
    lines = "".join(
        f"{case.hash_key_range.starting} {case.hash_key_range.ending} {base64.b64encode(case.data).decode()}\n"
        for case in given
    )
    ran = subprocess.run(
        command(profile, "Deaggregator", "-Dinterop.log=OFF"),
        input=lines,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return [line if line.startswith("raised") else _parsed(line) for line in ran.stdout.splitlines()]


def _parsed(line: str) -> list[Given]:
    fields = (record.split(":") for record in line.split())
    return [
        Given(int(sub), _text(key), None if explicit == "-" else _text(explicit), base64.b64decode(data))
        for sub, key, explicit, data in fields
    ]


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def compare(count: int, seed: int) -> bool:
    """Report what was compared; True if every difference is one of the table's."""
    drawn = list(cases(count, Random(seed)))
    clean = True
    for profile in (Profile.KCL_2, Profile.KCL_3):
        told: Counter[str] = Counter()
        for case, gave in zip(drawn, java_gave(drawn, profile), strict=True):
            what = judged(case, gave)
            told[what] += 1
            if what == UNKNOWN and told[what] <= 5:
                print(f"  {case.data.hex()} in {case.hash_key_range}")
                print(f"    sublet {sublet_gives(case)!s:.300}\n    Java   {gave!s:.300}")
        print(f"{profile}, seed {seed}: " + ", ".join(f"{number:,} {what}" for what, number in told.most_common()))
        clean = clean and not told[UNKNOWN]
    return clean


UNKNOWN = "differences that are not in the table"


def judged(case: Case, gave: list[Given] | str) -> str:
    """A case's result. `gave`: Java's."""
    ours = sublet_gives(case)
    if gave != java_gives(case):
        return UNKNOWN
    is_plain = ours.records == [Given(0, OWN_KEY, None, case.data)]
    if ours.is_whole:
        return "senseless, whole from sublet" if is_plain else UNKNOWN
    if gave != ours.records:
        is_wide = narrowed(case.data) != case.data
        return "beyond 32 bits, plain to sublet" if is_wide and is_plain else UNKNOWN
    return "plain" if read_aggregate(case.data) is None else "taken apart alike" if gave else "nothing from either"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.deaggregation")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    arguments = parser.parse_args()
    if why := problem():
        print(f"skipped: {why}")
        return 0
    build()
    return int(not compare(arguments.count, arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
