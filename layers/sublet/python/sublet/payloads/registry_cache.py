"""A registry asked once for each schema version, which never changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sublet.errors import SchemaNotUsable
from sublet.payloads.schema_registry import RegisteredSchema, SchemaRegistry

UNKNOWN_FOR = timedelta(minutes=1)
"""How long a version that is unknown, or cannot be used, stays so: one may be registered late, and each record that
names it would ask.
"""

UNKNOWN_MAX = 1_000
"""How many are kept: junk may name a new one each time."""


class CachedRegistry:
    """The SchemaRegistry port over another one. Safe for threads: two may ask for the same version at once.

    steady  the clock for durations
    """

    def __init__(self, registry: SchemaRegistry, steady: Callable[[], datetime]) -> None:
        self._registry, self._steady = registry, steady
        self._known: dict[str, RegisteredSchema] = {}
        self._unknown_since: dict[str, tuple[datetime, SchemaNotUsable | None]] = {}

    def version(self, version: str) -> RegisteredSchema | None:
        known = self._known.get(version)
        if known is not None:
            return known
        now, (since, why) = self._steady(), self._unknown_since.get(version, (None, None))
        if since is None or now - since >= UNKNOWN_FOR:
            try:
                found, why = self._registry.version(version), None
            except SchemaNotUsable as unusable:
                found, why = None, unusable
            if found is not None:
                self._known[version] = found
                return found
            if len(self._unknown_since) >= UNKNOWN_MAX:
                self._unknown_since.clear()
            self._unknown_since[version] = now, why
        if why is not None:
            raise SchemaNotUsable(str(why))
        return None

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Asks each time, since the latest version changes."""
        return self._registry.latest(subject)
