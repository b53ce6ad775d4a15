"""Arguments that several commands share: a duration, a position in time, --shard, and --stream where no application is
needed.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from sublet.errors import SeekRefused, SettingsError
from sublet.protocol.stream_identity import stream_settings
from sublet.protocol.stream_key import stream_key_of
from sublet.settings import DEFINITIONS, Settings, StreamChoice
from sublet.settings.text import parse_duration
from sublet.settings.value import variable_of

if TYPE_CHECKING:
    from sublet.operate.positions.seek_time import SeekTime

NO_APPLICATION = "sublet"


def add_streams(parser: ArgumentParser) -> None:
    """Adds --stream, and --streams for several."""
    add_stream(parser)
    parser.add_argument("--streams", metavar="STREAMS", help=f"several: {DEFINITIONS['streams'].allowed.described}")


def add_stream(parser: ArgumentParser) -> None:
    parser.add_argument("--stream", metavar="TEXT", help="a stream's name, or its ARN")


def stream_named(options: Namespace, environment: Mapping[str, str], shard: str = "") -> Settings:
    """Takes the stream from the option, otherwise from the shard's name if that is a full name, otherwise from
    SUBLET_STREAM. The settings name an application that does not exist, because no table is read. Raises SettingsError.
    """
    of_shard = stream_key_of(shard)
    named = options.stream or (of_shard and of_shard.stream) or environment.get(variable_of("stream"))
    several = environment.get(variable_of("streams"))
    if not named and several:
        raise SettingsError(
            "stream",
            None,
            f"required, since the command acts on one stream; give --stream with one of {several}",
        )
    if not named:
        raise SettingsError("stream", None, f"required; give --stream, or set {variable_of('stream')}")
    found = stream_settings(named)
    if of_shard is not None and of_shard.stream != found["stream"]:
        raise SettingsError("stream", found["stream"], f"the stream of shard {shard}")
    return Settings(application=NO_APPLICATION, stream=found["stream"], stream_arn=found.get("stream_arn"))


def streams_named(options: Namespace, environment: Mapping[str, str]) -> Settings:
    """Takes one stream as `stream_named` does, or several from --streams or SUBLET_STREAMS."""
    several = options.streams or (None if options.stream else environment.get(variable_of("streams")))
    if several is None:
        return stream_named(options, environment)
    if options.stream:
        raise SettingsError("stream", options.stream, "not allowed with --streams, which names all streams")
    return Settings(application=NO_APPLICATION, streams=StreamChoice.parse(several))


def name_or_arn(settings: Settings) -> str:
    return settings.stream_arn or settings.stream


def duration(text: str) -> timedelta:
    try:
        return parse_duration("duration", text)
    except SettingsError as refused:
        raise ArgumentTypeError(f"{text!r} is not {refused.allowed}") from None


def place(text: str) -> SeekTime:
    from sublet.operate.positions.seek_time import place as parsed

    try:
        return parsed(text)
    except SeekRefused as refused:
        raise ArgumentTypeError(str(refused)) from None


def add_shards(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--shard",
        dest="shards",
        metavar="SHARD",
        action="append",
        default=[],
        help="only this shard; may be repeated",
    )
