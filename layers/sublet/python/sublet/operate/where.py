"""A condition on a record's fields, such as `price > 10 and country == "DE"`, by the package rule-engine.

Its language is made for this: it has the operators that people expect and reaches values alone, never Python's
attributes or functions, as an evaluator of Python's own expressions might.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sublet.errors import SettingsError

SUCH_AS = 'a condition such as price > 10 and customer["country"] == "DE"'


BOUNDED_MAX = 1_000
"""Characters."""

_PARTS = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<unbounded>[=!]~|\*\*|<<|[$#]|\bfor\b)|.""",
    re.DOTALL,
)


def check_bounded(text: str, name: str = "where") -> None:
    """Raises SettingsError for a condition that could keep a process busy for ever: a regular expression that
    backtracks does, while nothing else of Python runs, and already when it is parsed.
    """
    if len(text) > BOUNDED_MAX or any(part["unbounded"] for part in _PARTS.finditer(text)):
        raise SettingsError(
            name,
            f"{text:.50}",
            f"at most {BOUNDED_MAX:,} characters without =~, !~, **, <<, $functions, loops and comments, which could "
            "hold up everybody here; `sublet tail --where` takes them",
        )


class Where:
    """A parsed condition. Raises SettingsError for one that cannot be parsed, and without the package.

    unjudged  how many records it could not be applied to
    problem   why, of the first of them
    """

    def __init__(self, text: str, name: str = "where") -> None:
        try:
            engine: Any = import_module("rule_engine")
        except ModuleNotFoundError:
            raise SettingsError(
                name, text, "left out, or install sublet with its extra payloads, which brings rule-engine"
            ) from None
        self._engine = engine
        context = engine.Context(resolver=engine.resolve_item, default_value=None)
        try:
            self._rule = engine.Rule(text, context=context)
        except engine.EngineError as fault:
            raise SettingsError(name, text, f"{SUCH_AS}; {fault.message}") from None
        except RecursionError:
            raise SettingsError(name, f"{text:.50}...", f"{SUCH_AS}; nested too deeply, or too long") from None
        self.unjudged, self.problem = 0, ""

    def matches(self, value: object) -> bool:
        """A field that is absent is null. A record whose fields have other types than the condition compares does not
        match, and neither does one that is no object.
        """
        if not isinstance(value, Mapping):
            return self._cannot_judge("not an object with fields")
        try:
            return bool(self._rule.matches(value))
        except self._engine.EngineError as fault:
            return self._cannot_judge(fault.message)
        except (ArithmeticError, TypeError, ValueError, RecursionError) as fault:  # a field of a type that it has not
            return self._cannot_judge(f"{type(fault).__name__}: {fault}")

    def _cannot_judge(self, problem: str) -> bool:
        self.unjudged += 1
        self.problem = self.problem or problem
        return False
