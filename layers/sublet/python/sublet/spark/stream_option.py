"""The option `stream`: one stream by its name or ARN, or several, as in the setting `streams`."""

from __future__ import annotations

from typing import Any

from sublet.errors import SettingsError
from sublet.protocol.stream_identity import StreamArn
from sublet.settings import StreamChoice
from sublet.spark.option_values import position_text

_OF_SEVERAL = frozenset(",*?@:")
"""Characters that only a choice of several streams has."""


def several_streams(text: str) -> StreamChoice | None:
    """The choice of a query of several streams; None for one stream. A choice may name only one, as `orders@LATEST`
    does. Raises SettingsError.
    """
    if _is_one_arn(text) or _OF_SEVERAL.isdisjoint(text):
        return None
    try:
        return StreamChoice.parse(",".join(map(_with_position, text.split(","))))
    except SettingsError as refusal:
        raise SettingsError("stream", refusal.value, refusal.allowed) from None


def _with_position(selector: str) -> str:
    what, at, start = selector.partition("@")
    return f"{what}@{position_text(start)}" if at else selector


def one_stream(values: dict[str, Any]) -> dict[str, Any]:
    """Adds the name and the ARN of a stream that is given by its ARN. Raises SettingsError if both options give an
    ARN.
    """
    text, arn = values["stream"], values["streamArn"]
    if several_streams(text) is not None:
        if arn is not None:
            raise SettingsError("streamArn", arn, "only with one stream: of several, name the ARNs in stream")
    elif _is_one_arn(text):
        if arn not in (None, text):
            raise SettingsError("streamArn", arn, "not beside another ARN in stream: give one of the two")
        return {**values, "stream": reported_stream(text), "streamArn": text}
    return values


def reported_stream(text: str) -> str:
    """The stream that a query with this option reports: the option's text, but the name of a stream that is given by
    its ARN.
    """
    return StreamArn.parse(text).stream if _is_one_arn(text) else text


def _is_one_arn(text: str) -> bool:
    return text.startswith("arn:") and not set(",*?@") & set(text)
