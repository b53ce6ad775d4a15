"""Settings as typed keyword arguments, for editors and type checkers, which need them written out. `python -m
docs.tables` writes `sublet/settings/keywords.py` from `sublet.settings`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from sublet import settings
from sublet.settings import DEFINITIONS, Definition, OnlyFor, StartPosition, StreamChoice
from sublet_cdk.consumer_settings import setting_names
from sublet_cdk.service_settings import service_setting_names

FILE = Path(str(settings.__file__)).with_name("keywords.py")

BEGINNING = '''"""Settings as keyword arguments, for type checkers and editors.

`python -m docs.tables` writes this file from `sublet.settings`, which documents each setting and checks what a type
cannot say. A duration may also be its text, as in the environment: "10s".
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypedDict

from sublet.settings.choices import (
    Balance,
    Checkpointing,
    FailureDetails,
    HandlerContract,
    HashRangeFilter,
    HotShardKeys,
    KclFleet,
    LogExceptions,
    MetricsByShard,
    MetricsExport,
    MetricsLevel,
    Mode,
    Reading,
    StartPosition,
    Tracing,
)
from sublet.settings.stream_choice import StreamChoice
'''

OF_CONSUMER = ("application", "stream", "handler")
"""Explicit arguments of `Consumer`."""


def keywords() -> str:
    """The text of `sublet/settings/keywords.py`."""
    worker, service = setting_names(), service_setting_names()
    both = [name for name in worker if name in service]
    process = [name for name, each in DEFINITIONS.items() if each.only is not OnlyFor.LAMBDA]
    ours = [name for name in process if name not in OF_CONSUMER]
    everything = [name for name in DEFINITIONS if name != "handler"]
    classes = (
        ("SharedKeywords", "TypedDict", "The settings of everything that runs a handler.", both),
        ("WorkerKeywords", "SharedKeywords", "The settings of a consumer on Lambda.", _without(worker, both)),
        (
            "ServiceKeywords",
            "SharedKeywords",
            "The settings of a consumer in containers.",
            _without(service, both),
        ),
        (
            "ProcessKeywords",
            "SharedKeywords",
            "The settings of a consumer in a process.",
            _without(ours, both),
        ),
        (
            "AnyKeywords",
            "ProcessKeywords",
            "All settings but the handler's name.",
            _without(everything, ours),
        ),
    )
    return BEGINNING + "".join(_class(*each) for each in classes)


def _class(name: str, base: str, meaning: str, names: Collection[str]) -> str:
    lines = [f"    {each}: {_type(DEFINITIONS[each])}" for each in names]
    return f'\n\nclass {name}({base}, total=False):\n    """{meaning}"""\n\n' + "\n".join(lines) + "\n"


def _type(setting: Definition) -> str:
    kinds = [setting.kind.__name__]
    if setting.kind in (timedelta, StartPosition, StreamChoice):
        kinds.append("str")
        kinds += ["Sequence[str]"] if setting.kind is StreamChoice else []
    elif issubclass(setting.kind, StrEnum):
        texts = ", ".join(f'"{member.value}"' for member in setting.kind)
        kinds.append(f"Literal[{texts}]")
    if setting.default is None:
        kinds.append("None")
    return " | ".join(kinds)


def _without(names: Collection[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]
