"""The option --stream of commands that need no application."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from sublet.errors import SettingsError
from sublet.protocol.stream_identity import stream_settings
from sublet.settings import Settings
from sublet.settings.value import variable_of


def add_stream(parser: ArgumentParser) -> None:
    parser.add_argument("--stream", metavar="TEXT", help="a stream's name, or its ARN")


def stream_named(options: Namespace, environment: Mapping[str, str]) -> Settings:
    """From the option or SUBLET_STREAM. The application is none that exists: no table is read."""
    named = options.stream or environment.get(variable_of("stream"))
    if not named:
        raise SettingsError("stream", None, f"required; give --stream, or set {variable_of('stream')}")
    found = stream_settings(named)
    return Settings(application="sublet", stream=found["stream"], stream_arn=found.get("stream_arn"))


def name_or_arn(settings: Settings) -> str:
    return settings.stream_arn or settings.stream
