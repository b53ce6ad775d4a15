"""How long a text of the template is at most, once CloudFormation has resolved it."""

from __future__ import annotations

import json
from typing import Any

from aws_cdk import Stack
from constructs import Construct

LONGEST = {"AWS::Partition": "aws-us-gov", "AWS::Region": "ap-northeast-1", "AWS::AccountId": "0" * 12}
KNOWN_LATER = "x" * 128
"""Stands for an ARN or a name that CloudFormation fills in: as long as the name of a stack may be."""


def text_length(scope: Construct, text: str) -> int:
    return len(str(_longest(Stack.of(scope).resolve(text))))


def json_length(scope: Construct, value: Any) -> int:
    """Without white space."""
    return len(json.dumps(_longest(Stack.of(scope).resolve(value)), separators=(",", ":")))


def _longest(resolved: Any) -> Any:
    """Puts the longest text that each intrinsic may become in its place."""
    match resolved:
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(str(_longest(part)) for part in parts)
        case {"Ref": name}:
            return LONGEST.get(name, KNOWN_LATER)
        case dict() if len(resolved) == 1 and next(iter(resolved)).startswith("Fn::"):
            return KNOWN_LATER
        case dict():
            return {key: _longest(value) for key, value in resolved.items()}
        case list():
            return [_longest(value) for value in resolved]
    return resolved
