"""A LeaseWrite as the parameters of PutItem, UpdateItem or DeleteItem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sublet.protocol.conditions import render
from sublet.protocol.lease import AttributeValue
from sublet.protocol.lease_attributes import LEASE_KEY, number
from sublet.protocol.lease_writes import LeaseWrite, WriteKind


@dataclass(frozen=True, slots=True)
class _Placeholders:
    """Keeps names and values out of the expression's text, where some words are reserved."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, AttributeValue] = field(default_factory=dict)

    def name(self, attribute: str) -> str:
        placeholder = f"#{attribute}"
        self.names[placeholder] = attribute
        return placeholder

    def value(self, value: AttributeValue) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return placeholder


def write_request(write: LeaseWrite) -> dict[str, Any]:
    """Everything but the table's name. A refusal returns the row that stood there, a success the row after the
    write.
    """
    used = _Placeholders()
    request: dict[str, Any] = {
        "ConditionExpression": render(write.condition, used.name, used.value),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    match write.kind:
        case WriteKind.CREATE:
            request["Item"] = dict(write.sets)
        case WriteKind.DELETE:
            request |= {"Key": _key(write), "ReturnValues": "ALL_OLD"}
        case _:
            request |= {
                "Key": _key(write),
                "UpdateExpression": _update_expression(write, used),
                "ReturnValues": "ALL_NEW",
            }
    request["ExpressionAttributeNames"] = used.names
    if used.values:
        request["ExpressionAttributeValues"] = used.values
    return request


def _key(write: LeaseWrite) -> Mapping[str, AttributeValue]:
    return {LEASE_KEY: {"S": write.lease_key}}


def _update_expression(write: LeaseWrite, used: _Placeholders) -> str:
    actions = {
        "SET": [f"{used.name(name)} = {used.value(value)}" for name, value in write.all_sets.items()],
        "ADD": [f"{used.name(name)} {used.value(number(amount))}" for name, amount in write.adds.items()],
        "REMOVE": [used.name(name) for name in write.removes],
    }
    return " ".join(f"{action} {', '.join(parts)}" for action, parts in actions.items() if parts)
