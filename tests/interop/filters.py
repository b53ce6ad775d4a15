"""AWS' own matcher and ours on the same patterns and events: `python -m tests.interop.filters [--count 20000] [--seed
N]`.

The matcher is event-ruler 2.1.0, as `Ruler.matchesRule`. Whether an event source mapping runs this version of it nobody
outside of AWS can see, so where it leaves room sublet delivers, because a delivered record can be ignored and a dropped
one is lost:

| | event-ruler | sublet |
|---|---|---|
| a field that must be absent, in an array of which another field chooses an element | in that element if the other
field's name comes first, else in all | in that element |
| a number that a double does not hold exactly | is compared as text only | as a number |
| letters whose case changes into several letters, such as ß | are themselves | equal their other forms |
| an object with `a` and with `a.b` | one object may have some of its fields from each | only from one |

Of the last row sublet drops some that event-ruler delivers: five of 60,000 events that are drawn with such names.
"""

from __future__ import annotations

import argparse
import base64
import json
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from sublet.settings.filter_criteria import any_matches, parsed, patterns_of

from tests.interop.build import Profile, build, command, problem

COUNT = 20_000
LIMIT = 120.0
NAMES = ("a", "b", "c", "a.b")
WIDE = "1.00000000000000000001"
"""Of more digits than a double has."""
LETTERS = ("", "a", "A", "ab", "Ba", "é", "É", "ß", "SS", "ı", "I", "K", "k")
NUMBERS = ("0", "-0", "1", "1.0", "1e0", "2", "-3.5", "0.1", "123456789012", WIDE)
OTHERS = ("true", "false", "null")


class Case(NamedTuple):
    """A pattern and an event, as JSON."""

    pattern: str
    event: str


def cases(count: int, chance: Random) -> Iterator[Case]:
    for _ in range(count):
        yield Case(f'{{"data": {_pattern(chance, 3)}}}', f'{{"data": {_object(chance, 3)}}}')


def _pattern(chance: Random, depth: int) -> str:
    names = chance.sample(NAMES, chance.choice((1, 1, 2, 2, 3)))
    fields = [f'"{name}": {_wanted(chance, depth - 1)}' for name in names]
    if depth > 1 and chance.random() < 0.15:
        alternatives = ", ".join(_pattern(chance, depth - 1) for _ in range(2))
        fields.insert(chance.randrange(len(fields) + 1), f'"$or": [{alternatives}]')
    return "{" + ", ".join(fields) + "}"


def _wanted(chance: Random, depth: int) -> str:
    if depth > 0 and chance.random() < 0.4:
        return _pattern(chance, depth)
    return "[" + ", ".join(_condition(chance) for _ in range(chance.choice((1, 1, 2)))) + "]"


def _condition(chance: Random) -> str:
    text, number = json.dumps(chance.choice(LETTERS)), chance.choice(NUMBERS)
    exact = chance.choice([number for number in NUMBERS if number != WIDE])
    return chance.choice(
        (
            text,
            number,
            chance.choice(OTHERS),
            '{"exists": true}',
            '{"exists": false}',
            '{"exists": false}',
            f'{{"prefix": {text}}}',
            f'{{"suffix": {text}}}',
            f'{{"equals-ignore-case": {text}}}',
            f'{{"anything-but": [{text}]}}',
            f'{{"anything-but": [{exact}, 7]}}',
            '{"anything-but": {"prefix": "A"}}',
            f'{{"numeric": ["=", {exact}]}}',
            '{"numeric": [">", 0, "<=", 1]}',
            f'{{"numeric": ["<", {exact}]}}',
        )
    )


def _value(chance: Random, depth: int) -> str:
    if depth > 0 and chance.random() < 0.6:
        return (_object if chance.random() < 0.5 else _array)(chance, depth - 1)
    if chance.random() < 0.5:
        return json.dumps(chance.choice(LETTERS))
    return chance.choice(NUMBERS + OTHERS)


def _object(chance: Random, depth: int) -> str:
    names = chance.sample(NAMES, chance.choice((0, 1, 1, 2, 3)))
    return "{" + ", ".join(f'"{name}": {_value(chance, depth)}' for name in names) + "}"


def _array(chance: Random, depth: int) -> str:
    return "[" + ", ".join(_value(chance, depth) for _ in range(chance.choice((0, 1, 2, 3)))) + "]"


def sublet_delivers(case: Case) -> bool:
    criteria = json.dumps({"Filters": [{"Pattern": case.pattern}]})
    return any_matches(patterns_of(criteria), parsed(case.event))


def java_said(given: Iterable[Case]) -> list[str]:
    """For each case `true`, `false` or the exception's class. One JVM for all of them."""
    lines = "".join(f"{_encoded(case.pattern)} {_encoded(case.event)}\n" for case in given)
    ran = subprocess.run(
        command(Profile.FILTER, "Filter"),
        input=lines,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return ran.stdout.splitlines()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


UNKNOWN = "differences that are not in the table"


def judged(case: Case, said: str) -> str:
    """A case's result. `said`: by Java."""
    delivers = sublet_delivers(case)
    if said == str(delivers).lower():
        return "delivered by both" if delivers else "dropped by both"
    if said == "false":
        return next((what for what, is_so in DELIVERED.items() if is_so(case)), UNKNOWN)
    return "a and a.b in one object" if said == "true" and _has_both(parsed(case.event)) else UNKNOWN


def _absent_beside_others(case: Case) -> bool:
    return '"exists": false' in case.pattern and "," in case.pattern and "[" in case.event


DELIVERED: dict[str, Callable[[Case], bool]] = {
    "a number that no double holds": lambda case: WIDE in case.event,
    "letters that become several": lambda case: "equals-ignore-case" in case.pattern,
    "absent in the chosen element": _absent_beside_others,
    "a and a.b in one object, delivered": lambda case: _has_both(parsed(case.event)),
}
"""Why sublet may deliver what event-ruler does not."""


def _has_both(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_both, value))
    return isinstance(value, dict) and ({"a", "a.b"} <= value.keys() or any(map(_has_both, value.values())))


def compare(count: int, seed: int) -> bool:
    """Report what was compared; True if every difference is one of the table's."""
    drawn = list(cases(count, Random(seed)))
    told = _counted(drawn, java_said(drawn))
    print(f"event-ruler, seed {seed}: " + ", ".join(f"{number:,} {what}" for what, number in told.most_common()))
    return not told[UNKNOWN]


def _counted(drawn: Sequence[Case], said: Sequence[str]) -> Counter[str]:
    told: Counter[str] = Counter()
    for case, java in zip(drawn, said, strict=True):
        what = judged(case, java)
        told[what] += 1
        if what == UNKNOWN and told[what] <= 5:
            print(f"  {case.pattern}\n  on {case.event}: sublet {sublet_delivers(case)}, Java {java}")
    return told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.filters")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    arguments = parser.parse_args()
    if why := problem():
        print(f"skipped: {why}")
        return 0
    build([Profile.FILTER])
    return int(not compare(arguments.count, arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
