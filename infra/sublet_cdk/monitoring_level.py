"""How much a construct watches what it deploys: the property `monitoring`."""

from __future__ import annotations

from enum import StrEnum

from sublet.errors import SettingsError


class MonitoringLevel(StrEnum):
    """`full`: every alarm, and a dashboard. `none`: neither, for the second deployment of an application, or if your
    own alarms watch it."""

    FULL = "full"
    NONE = "none"


def level_of(stated: MonitoringLevel | str | bool) -> MonitoringLevel:
    """False is `none`, and True `full`. Raises SettingsError."""
    if isinstance(stated, bool):
        return MonitoringLevel.FULL if stated else MonitoringLevel.NONE
    try:
        return MonitoringLevel(stated)
    except ValueError:
        raise SettingsError("monitoring", stated, f"one of {', '.join(MonitoringLevel)}") from None


def check_unheard(level: MonitoringLevel, **stated: object) -> None:
    """Refuses what is stated of alarms, if there are none."""
    if level is MonitoringLevel.NONE:
        for name, value in stated.items():
            if value is not None:
                raise SettingsError(
                    name, value, "left out, since monitoring=none creates neither alarms nor a dashboard"
                )
