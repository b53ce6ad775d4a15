"""Reads a stack's properties from CDK context, and checks their names. Context is text from `-c` or cdk.json. `sublet
deploy` takes only its own command line, because the current folder may have a cdk.json of another app, with keys of the
same names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeVar

from constructs import Construct
from sublet.errors import SettingsError
from sublet.settings import DEFINITIONS, unknown, unknown_setting

T = TypeVar("T")

COMMAND_LINE = "sublet"
"""The only key of `sublet deploy`: all its options, as a JSON object of strings."""

STACK = "stack"
OWN_CREDENTIALS = "cli_credentials"
APP_CONTEXT = {
    STACK: "consumer (default) or pipeline",
    OWN_CREDENTIALS: "true: deploy without bootstrap's roles, as the caller (emulators need it)",
}
"""Keys that the app itself reads, for every stack."""


def stated(scope: Construct) -> dict[str, str]:
    """Our context keys, as text. CDK's own contain a colon, a slash or an @."""
    command_line = scope.node.try_get_context(COMMAND_LINE)
    everything = json.loads(command_line) if command_line is not None else scope.node.get_all_context()
    return {
        key: _text(value)
        for key, value in everything.items()
        if not set(key) & set(":/@") and not key.startswith("aws-cdk")
    }


def context_of(scope: Construct, known: Iterable[str]) -> dict[str, str]:
    """Returns our context keys as `stated` does, but refuses a key that is not `known`."""
    ours, names = stated(scope), {*APP_CONTEXT, *known}
    for key in ours.keys() - names:
        if key in DEFINITIONS:
            raise unknown_setting(key, ours[key], names)
        raise unknown(key, ours[key], "context key", names)
    return ours


def _text(value: object) -> str:
    """Returns a value as text: `-c` gives text, but cdk.json may contain a number, a boolean or an object."""
    return value if isinstance(value, str) else json.dumps(value)


def required(context: Mapping[str, str], name: str, meaning: str) -> str:
    if name not in context:
        raise SettingsError(name, None, f"required: {meaning}")
    return context[name]


def is_true(context: Mapping[str, str], name: str, *, default: bool) -> bool:
    return one_of(context, name, {"true": True, "false": False}) if name in context else default


def number(context: Mapping[str, str], name: str) -> int | None:
    text = context.get(name)
    if text is not None and not text.isdecimal():
        raise SettingsError(name, text, "a whole number")
    return int(text) if text is not None else None


def one_of(context: Mapping[str, str], name: str, choices: Mapping[str, T]) -> T:
    if context[name] not in choices:
        raise SettingsError(name, context[name], f"one of {', '.join(choices)}")
    return choices[context[name]]


def texts_by_name(context: Mapping[str, str], name: str) -> dict[str, str]:
    """Returns a key's JSON object of strings, or an empty one if the key is not given."""
    text = context.get(name, "{}")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise SettingsError(name, text, 'a JSON object of texts, such as {"NAME": "value"}')
    return value


def stream_arn(arn: str) -> str:
    if not arn.startswith("arn:"):
        raise SettingsError("stream_arn", arn, "the ARN of a stream: arn:aws:kinesis:<region>:<account>:stream/<name>")
    return arn
