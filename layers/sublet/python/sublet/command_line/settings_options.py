"""Derives a command's options from the settings' definitions, so that a new setting has an option too."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Collection, Mapping
from datetime import timedelta

from sublet.errors import SettingsError
from sublet.protocol.stream_identity import stream_settings
from sublet.runtimes.process_settings import process_defaults
from sublet.settings import (
    DEFINITIONS,
    PREFIX,
    Definition,
    OnlyFor,
    Settings,
    StartPosition,
    StreamChoice,
    setting_text,
)
from sublet.settings.reasons import reasons
from sublet.settings.text import parse_duration
from sublet.settings.value import NO_STREAM, variable_of

METAVARS = {
    int: "NUMBER",
    timedelta: "DURATION",
    bool: "true|false",
    StartPosition: "POSITION",
    StreamChoice: "STREAMS",
    str: "TEXT",
}

STREAM_SAID = "The stream's name or, unlike the setting, its ARN. Required, unless `streams` names several."

FIRST = ("application", "stream", "handler")
"""The settings that every run requires."""


def add_settings(parser: ArgumentParser) -> None:
    """Adds an option for each setting of a process."""
    first, others = parser.add_argument_group("what to consume"), parser.add_argument_group("settings")
    for name in FIRST:
        add_setting(first, DEFINITIONS[name])
    for name, definition in DEFINITIONS.items():
        if name not in FIRST and definition.only is not OnlyFor.LAMBDA:
            add_setting(others, definition)


def add_setting(parser: ArgumentParser | _ArgumentGroup, definition: Definition) -> None:
    own = process_defaults("<application>", "<start>").get(definition.name)
    default = definition.default_text if own is None else setting_text(own)
    allowed = definition.allowed.described + (f"; default: {default}" if default else "")
    said = STREAM_SAID if definition.name == "stream" else f"{reasons().get(definition.name, '')} [{allowed}]"
    parser.add_argument(
        option_of(definition.name), metavar=METAVARS.get(definition.kind, "NAME"), help=said.replace("%", "%%")
    )


def settings_of(options: Namespace, environment: Mapping[str, str], required: Collection[str] = FIRST) -> Settings:
    """Takes each setting from the options, otherwise from the SUBLET_* variables, otherwise from a process's defaults.
    `required`: settings that must be given besides the application; a command that reads no stream needs none.
    """
    stated = _by_arn({name: text for name, text in environment.items() if name.startswith(PREFIX)})
    given = _by_arn(
        {variable_of(name): text for name in DEFINITIONS if (text := getattr(options, name, None)) is not None}
    )
    texts = stated | given
    for name in required:
        if variable_of(name) not in texts and not (name == "stream" and variable_of("streams") in texts):
            raise missing(name)
    application = (stated | given)[variable_of("application")]
    own = {variable_of(name): setting_text(value) for name, value in process_defaults(application).items()}
    if "handler" not in required:
        own |= _heartbeat(stated | given)
    none = {} if variable_of("streams") in texts else {variable_of("stream"): NO_STREAM}
    return Settings.from_environment({**none, **own, **stated, **given})


def _by_arn(texts: dict[str, str]) -> dict[str, str]:
    """A stream that is given by its ARN is two settings. Raises SettingsError if it is another resource's ARN."""
    stream = texts.get(variable_of("stream"), "")
    if not stream.startswith("arn:"):
        return texts
    return {**texts, **{variable_of(name): text for name, text in stream_settings(stream).items()}}


def _heartbeat(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Lets a command that writes no heartbeats accept any failover_time, such as KCL's default of 10 s."""
    failover = texts.get(variable_of("failover_time"))
    if failover is None:
        return {}
    third = parse_duration("failover_time", failover) / 3
    shortest = timedelta(seconds=1)
    return {variable_of("heartbeat_interval"): setting_text(max(third, shortest))}


def missing(name: str) -> SettingsError:
    return SettingsError(name, None, f"required; give {option_of(name)}, or set {variable_of(name)}")


def option_of(name: str) -> str:
    """Returns the name of a setting's option."""
    return "--" + name.replace("_", "-")
