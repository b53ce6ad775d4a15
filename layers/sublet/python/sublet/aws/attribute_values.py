"""DynamoDB's wire JSON as typed attribute values. Only binary differs: on the wire it is base64."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any

from sublet.protocol.lease import AttributeValue


def decode_binary(item: dict[str, dict[str, Any]]) -> dict[str, AttributeValue]:
    """Decodes binary values in place and returns the item."""
    for value in item.values():
        if "B" in value:
            value["B"] = a2b_base64(value["B"])
        elif "BS" in value:
            value["BS"] = [a2b_base64(text) for text in value["BS"]]
        elif "M" in value:
            decode_binary(value["M"])
        elif "L" in value:
            decode_binary(dict(enumerate(value["L"])))  # type: ignore[arg-type]
    return item  # type: ignore[return-value]
