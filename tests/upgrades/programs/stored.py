"""Reads rows and offsets as JSON, by this version's own code, and prints each as this version would write it again."""

from __future__ import annotations

import json
import sys
from typing import Any

from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.spark.plan.offsets_of_several import any_offset_from_json, any_offset_to_json


def main() -> None:
    given = json.load(sys.stdin)
    rows = {name: again(row) for name, row in given["rows"].items()}
    offsets = {name: any_offset_to_json(any_offset_from_json(one)) for name, one in given["offsets"].items()}
    print(json.dumps({"rows": rows, "offsets": offsets}))


def again(row: dict[str, Any]) -> dict[str, Any]:
    lease = decode_row(row)
    assert isinstance(lease, Lease), lease
    return {
        name: {kind: sorted(value) if kind == "SS" else value for kind, value in attribute.items()}
        for name, attribute in encode_row(lease).items()
    }


if __name__ == "__main__":
    main()
