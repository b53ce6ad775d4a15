"""What each write may change in a row, and which rows must refuse it: the table of docs/algorithm.md as code.

A missing clause does harm only where two rare events meet, which few worlds see. So each write is tried on the row that
it met and on rows that differ from it in one attribute, as another client might have left them. Rows that agree in
everything that fences the write, in whatever spelling, must accept it. All others must refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sublet.protocol import lease_attributes as attributes
from sublet.protocol.conditions import Row, holds
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_attributes import number
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, apply_to
from sublet.protocol.write_clauses import SEEK_LEAP

HELD = frozenset({"lease_counter", "lease_owner", "holder"})
POSITION = frozenset({"position"})
NOT_ENDED = frozenset({"is_ended"})
COUNTER = frozenset({attributes.LEASE_COUNTER, attributes.HOLDER_COUNTER})
OWNERSHIP = frozenset(
    {attributes.LEASE_OWNER, attributes.CHECKPOINT_OWNER, attributes.HOLDER, attributes.HOLDER_COUNTER}
)
PROGRESS = frozenset({attributes.CHECKPOINT, attributes.SUB_SEQUENCE_NUMBER, attributes.OWNER_SWITCHES})
REPORTS = frozenset({attributes.LAG, attributes.FAILING})
TIP = frozenset({attributes.CAUGHT_UP_AT, attributes.QUIET, attributes.SEEN, attributes.UNANSWERED}) | REPORTS
CRASHES = frozenset({attributes.CRASHES, attributes.CRASHED_AT})
OVER = frozenset({*attributes.PENDING, attributes.START_AT, attributes.QUIET, attributes.LAG, *attributes.TROUBLES})
"""The attributes that progress removes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`fenced_by`: fields of the lease that must be unchanged. `changes`, `removes`: attributes. `counted`: the
    counter's increment. A row without a counter is not a lease and refuses every write.
    """

    fenced_by: frozenset[str]
    changes: frozenset[str] = frozenset()
    removes: frozenset[str] = frozenset()
    counted: int = 1


RULES = {
    WriteKind.ACQUIRE: Rule(
        frozenset({"lease_counter", "lease_owner"}) | NOT_ENDED,
        frozenset({attributes.LEASE_OWNER, attributes.HOLDER, attributes.OWNER_SWITCHES}) | CRASHES,
        frozenset({attributes.CHECKPOINT_OWNER}),
    ),
    WriteKind.HEARTBEAT: Rule(HELD, TIP | CRASHES | {attributes.ATTEMPTS, attributes.THROUGHPUT}),
    WriteKind.PIN: Rule(
        HELD | POSITION,
        frozenset({attributes.START_AT, attributes.SUB_SEQUENCE_NUMBER}),
        frozenset({attributes.QUIET, attributes.LAG}),
    ),
    WriteKind.CHECKPOINT: Rule(
        HELD | POSITION,
        PROGRESS | {attributes.THROUGHPUT, attributes.CAUGHT_UP_AT, attributes.SEEN, attributes.UNANSWERED},
        OVER,
    ),
    WriteKind.PREPARE: Rule(HELD, frozenset(attributes.PENDING)),
    WriteKind.LATE_CHECKPOINT: Rule(POSITION, PROGRESS, OVER, counted=0),
    WriteKind.SET_CHILDREN: Rule(HELD, frozenset({attributes.CHILDREN})),
    WriteKind.END: Rule(HELD | POSITION, PROGRESS, OVER | OWNERSHIP | {attributes.CAUGHT_UP_AT}),
    WriteKind.RELEASE: Rule(HELD, TIP | CRASHES, OWNERSHIP),
    WriteKind.HAND_OVER: Rule(
        frozenset({"lease_owner", "checkpoint_owner"}),
        frozenset({attributes.OWNER_SWITCHES}),
        frozenset({attributes.CHECKPOINT_OWNER, attributes.HOLDER, attributes.HOLDER_COUNTER}),
    ),
    WriteKind.DELETE: Rule(frozenset({"lease_counter", "lease_owner"})),
    WriteKind.SEEK: Rule(
        frozenset({"lease_counter", "lease_owner", "checkpoint_owner"}) | POSITION,
        PROGRESS | {attributes.START_AT},
        OVER | OWNERSHIP | {attributes.CAUGHT_UP_AT},
        counted=SEEK_LEAP,
    ),
}

NOTES = frozenset({attributes.AHEAD, attributes.ATTEMPTS})
"""The attributes that say what is finished beyond the position of an owner's write."""


def rule_of(write: LeaseWrite) -> Rule:
    """A write with such a note is fenced by the position too; any other write by an owner removes the note. A
    checkpoint that says how far its shard is behind, or how its handler fails, replaces what was said of the old
    position.
    """
    rule = RULES[write.kind]
    if write.kind is WriteKind.CHECKPOINT and (says := REPORTS & write.sets.keys()):
        rule = replace(rule, changes=rule.changes | says, removes=rule.removes - says)
    if attributes.AHEAD in write.sets:
        return replace(
            rule,
            fenced_by=rule.fenced_by | POSITION,
            changes=rule.changes | NOTES,
            removes=rule.removes - NOTES,
        )
    takes_away = frozenset({attributes.AHEAD} & set(write.removes))
    return replace(rule, removes=rule.removes | takes_away)


ELSEWHERE = "9" * 56
NULL: AttributeValue = {"NULL": True}
OTHERWISE: dict[str, tuple[AttributeValue | None, ...]] = {
    attributes.LEASE_OWNER: ({"S": "somebody else"}, {"S": ""}, NULL, None),
    attributes.HOLDER: ({"S": "somebody else/1"}, None),
    attributes.CHECKPOINT_OWNER: ({"S": "somebody else"}, None),
    attributes.CHECKPOINT: ({"S": ELSEWHERE}, {"S": "TRIM_HORIZON"}, {"S": "LATEST"}, {"S": "SHARD_END"}),
    attributes.SUB_SEQUENCE_NUMBER: ({"N": "77"}, {"N": "0"}, NULL, None),
    attributes.START_AT: ({"N": "77000"}, NULL, None),
}
"""Other values to try for the attribute; None: absent."""

PROBED = 8
"""How many writes of each kind a world probes. The rules are the same for all of them."""


@dataclass(slots=True)
class WriteRules:
    """One for each world. Java's writes follow Java's rules."""

    probed: dict[WriteKind, int] = field(default_factory=dict)

    def broken(self, write: LeaseWrite, before: Row | None, after: Row | None) -> str | None:
        """The rule that an applied write has broken, in words."""
        if write.kind is WriteKind.CREATE:
            return "it may overwrite a row" if holds(write.condition, after) else None
        met, rule = decode_row(before or {}), rule_of(write)
        if before is None or not isinstance(met, Lease):
            return None  # an unreadable row is an operator's doing
        problem = _changed_wrongly(rule, write, before, after) if after is not None else None
        if problem is None and self.probed.get(write.kind, 0) < PROBED:
            self.probed[write.kind] = self.probed.get(write.kind, 0) + 1
            problem = _fenced_wrongly(rule, write, before, met) or _left_of_more(rule, write, before)
        return problem


def _changed_wrongly(rule: Rule, write: LeaseWrite, before: Row, after: Row) -> str | None:
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if odd := changed - rule.changes - rule.removes - COUNTER:
        return f"it changed {sorted(odd)}"
    if left := rule.removes & after.keys():
        return f"it left {sorted(left)}"
    counted = int(after[attributes.LEASE_COUNTER]["N"]) - int(before[attributes.LEASE_COUNTER]["N"])
    if counted != rule.counted:
        return f"it counted {counted}"
    return _switched_wrongly(write, before, after)


def _switched_wrongly(write: LeaseWrite, before: Row, after: Row) -> str | None:
    """Checks the count of how often the owner has changed since the last progress."""
    switches = [int(row.get(attributes.OWNER_SWITCHES, {}).get("N", 0)) for row in (before, after)]
    owners = [row.get(attributes.LEASE_OWNER, {}).get("S") for row in (before, after)]
    due = switches[0]
    if write.kind is WriteKind.HAND_OVER or (write.kind is WriteKind.ACQUIRE and owners[0] and owners[0] != owners[1]):
        due += 1
    elif attributes.CHECKPOINT in write.sets:
        due = 0
    return None if switches[1] == due else f"it made {switches[0]} switches of owners {switches[1]}"


def _fenced_wrongly(rule: Rule, write: LeaseWrite, before: Row, met: Lease) -> str | None:
    if holds(write.condition, None):
        return "it would make half a row where there is none"
    for name, row in _rows_like(before):
        lease, is_taken = decode_row(row), holds(write.condition, row)
        if not isinstance(lease, Lease):
            if is_taken:
                return f"a row with {row.get(name)} as its {name} would take it, which is no lease"
            continue
        says_the_same = all(getattr(lease, what) == getattr(met, what) for what in rule.fenced_by)
        if is_taken and not says_the_same:
            return f"a row with {row.get(name)} as its {name} would take it, as {before.get(name)} did"
        if says_the_same and not is_taken and lease.position == met.position:
            return f"a row with {row.get(name)} as its {name} would refuse it, as {before.get(name)} did not"
    return None


def _left_of_more(rule: Rule, write: LeaseWrite, before: Row) -> str | None:
    """Tries the write on a row with all the attributes that it removes; few rows have them all."""
    after = apply_to(write, {**dict.fromkeys(rule.removes, number(1)), **before})
    left = rule.removes & (after or {}).keys()
    return f"it would leave {sorted(left)}" if left else None


def _rows_like(row: Row) -> Iterator[tuple[str, Row]]:
    """Returns rows that each differ from the row in one attribute, or in none."""
    counter = int(row[attributes.LEASE_COUNTER]["N"])
    others = {**OTHERWISE, attributes.LEASE_COUNTER: ({"N": str(counter + 1)}, None)}
    for name, values in others.items():
        rest = {column: value for column, value in row.items() if column != name}
        for value in values:
            yield name, rest if value is None else {**rest, name: value}
