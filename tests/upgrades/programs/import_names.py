"""Imports each name that it reads as JSON, as users' programs do, and prints what became of the others: by name, the
error.

A name is `module`, `module:name` or dotted, of which the last parts may be attributes. With a warning is as good.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec

NOT_HERE = {
    "aws_cdk",
    "constructs",
    "deltalake",
    "greenlet",
    "h2",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "starlette",
}
"""Packages of extras. Of what needs one that is not here, only its module is looked for."""


def main() -> None:
    failed = {}
    for name in json.load(sys.stdin):
        try:
            imported(name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] not in NOT_HERE or not is_there(name):
                failed[name] = f"{type(missing).__name__}: {missing}"
        except Exception as error:  # noqa: BLE001 - whatever a user would see
            failed[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(failed))


def imported(name: str) -> None:
    module, _, attribute = name.partition(":")
    if module.endswith("__main__"):
        if find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}")
    elif attribute:
        if not hasattr(import_module(module), attribute):
            import_module(f"{module}.{attribute}")
    else:
        dotted(module)


def dotted(name: str) -> None:
    parts = name.split(".")
    value: object = import_module(parts[0])
    for place, part in enumerate(parts[1:], 1):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = import_module(".".join(parts[: place + 1]))


def is_there(name: str) -> bool:
    try:
        return find_spec(name.partition(":")[0]) is not None
    except ModuleNotFoundError as missing:
        return (missing.name or "").partition(".")[0] in NOT_HERE


if __name__ == "__main__":
    main()
