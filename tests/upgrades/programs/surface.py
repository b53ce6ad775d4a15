"""What users type and pass, as this version's own help and signatures say: prints it as JSON.

Commands with their options; settings with their defaults; parameters and attributes of the public classes and
constructs.
"""

from __future__ import annotations

import inspect
import io
import json
import re
import runpy
import sys
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any

import sublet
import sublet.aio
import sublet_cdk

OPTION = re.compile(r"^  (?:-\w(?: [^\s,]+)?, )?(--[a-z][a-z-]*)", re.MULTILINE)
COMMAND = re.compile(r"^  ([a-z]+) {2,}\S", re.MULTILINE)


def help_of(*words: str) -> str:
    sys.argv = ["sublet", *words, "--help"]
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            runpy.run_module("sublet", run_name="__main__")
    except SystemExit:
        pass
    return said.getvalue()


def commands() -> dict[str, list[str]]:
    return {name: sorted(set(OPTION.findall(help_of(name)))) for name in sorted(set(COMMAND.findall(help_of())))}


def settings() -> dict[str, str]:
    given = inspect.signature(sublet.Settings).parameters.values()
    return {each.name: "required" if each.default is each.empty else str(each.default) for each in given}


def classes(package: ModuleType) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for name in sorted(package.__all__):
        value: Any = getattr(package, name)
        found[f"{package.__name__}.{name}"] = {
            "parameters": parameters(value),
            "attributes": sorted(each for each in dir(value) if not each.startswith("_")),
        }
    return found


def parameters(value: Any) -> list[str]:
    try:
        given = inspect.signature(value.__init__ if inspect.isclass(value) else value).parameters
    except (TypeError, ValueError):
        return []
    return sorted(name for name in given if name not in ("self", "args", "kwargs"))


def main() -> None:
    shown = {
        "commands": commands(),
        "settings": settings(),
        "classes": classes(sublet) | classes(sublet.aio) | classes(sublet_cdk),
    }
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
