"""Which streams an application of several reads: by name, ARN, name pattern or tag, each with a start position if it
needs one.

As text, separated by commas: `orders,audit-*@LATEST,tag:team=billing`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sublet.errors import SettingsError
from sublet.settings.choices import StartPosition

ALLOWED = (
    "streams separated by commas, each a name, an ARN, a name pattern with * and ?, tag:KEY=VALUE, or KCL's "
    "account:stream:creation epoch; each may end in @ and its own start position: "
    "orders,audit-*@LATEST,tag:team=billing"
)

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,128}")
_ARN = re.compile(r"arn:[\w-]+:kinesis:[\w-]+:\d{12}:stream/[A-Za-z0-9_.-]{1,128}")
_KCL = re.compile(r"\d{12}:[A-Za-z0-9_.-]{1,128}:[1-9]\d{0,17}")
_TAG = re.compile(r"tag:([^=,@]{1,128})=([^,@]{0,256})")


@dataclass(frozen=True, slots=True)
class StreamSelector:
    """One part of the choice. `start`: where its streams' shards begin; None: at the setting start_position."""

    what: str
    start: StartPosition | None = None

    def __post_init__(self) -> None:
        if not self.is_one(self.what):
            raise SettingsError("streams", self.what, ALLOWED)

    @staticmethod
    def is_one(what: str) -> bool:
        """Whether the text can be a selector's `what`."""
        return any(kind.fullmatch(what) for kind in (_PATTERN, _ARN, _KCL, _TAG))

    @classmethod
    def parse(cls, text: str) -> StreamSelector:
        what, at, start = text.strip().partition("@")
        try:
            return cls(what, StartPosition.parse(start) if at else None)
        except SettingsError as refused:
            if refused.name == "streams":
                raise
            raise SettingsError("streams", text.strip(), f"after the @ {refused.allowed}") from None

    def __str__(self) -> str:
        return self.what if self.start is None else f"{self.what}@{self.start}"

    @property
    def is_exact(self) -> bool:
        """Whether it names one stream, which is missing if it is not found."""
        return any(kind.fullmatch(self.what) for kind in (_NAME, _ARN, _KCL))

    @property
    def exact_name(self) -> str | None:
        """The name of the one stream that it names; None for a pattern or a tag."""
        if not self.is_exact:
            return None
        return self.what.split(":")[1] if self.is_kcls else self.what.rpartition("/")[2]

    @property
    def is_arn(self) -> bool:
        return _ARN.fullmatch(self.what) is not None

    @property
    def is_kcls(self) -> bool:
        """`account:stream:creation epoch`: the epoch is taken on trust, as KCL does."""
        return _KCL.fullmatch(self.what) is not None

    @property
    def tag(self) -> tuple[str, str] | None:
        """The tag's key and value, if it selects by tag."""
        found = _TAG.fullmatch(self.what)
        return None if found is None else (found[1], found[2])

    def names(self, account: str, stream: str, epoch: int) -> bool:
        """Whether it names this stream, by name, pattern or ARN, or as KCL does. A tag names none."""
        if self.is_kcls:
            return self.what == f"{account}:{stream}:{epoch}"
        return self.what.endswith(f":{account}:stream/{stream}") if self.is_arn else self.matches_name(stream)

    def matches_name(self, name: str) -> bool:
        """Whether the selector's name or pattern matches."""
        return _PATTERN.fullmatch(self.what) is not None and fnmatchcase(name, self.what)


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """The setting `streams`. Of several parts that name a stream, the first decides its start position."""

    selectors: tuple[StreamSelector, ...]

    def __post_init__(self) -> None:
        if not self.selectors:
            raise SettingsError("streams", "", ALLOWED)

    @classmethod
    def parse(cls, text: str) -> StreamChoice:
        return cls(tuple(StreamSelector.parse(part) for part in text.split(",")))

    def __str__(self) -> str:
        return ",".join(map(str, self.selectors))

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        return tuple(dict.fromkeys(each.tag for each in self.selectors if each.tag is not None))
