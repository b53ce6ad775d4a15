"""Every setting of a deployment.

value       Settings itself: each setting's name, type, default, range and reason, in this one place
definition  what an annotation there may say (ranges, patterns, whom a setting is for, its name elsewhere), and that as data
kinds       what settings are made of beside numbers and durations
limits      settings that depend on each other
nearest     the name that was meant, where one is not known
text        settings as text: in the environment, on a command line
reasons     each setting's reason, for documents and help
"""

from sublet.settings.definition import Definition, Only
from sublet.settings.kinds import (
    Balance,
    Checkpointing,
    FailureDetails,
    HandlerContract,
    HashRangeFilter,
    KclFleet,
    LogExceptions,
    Mode,
    StartKind,
    StartPosition,
)
from sublet.settings.limits import (
    POLL_LIMIT_MAX,
    POLLS_PER_SECOND_MAX,
    READ_BYTES_PER_SECOND,
    check_sets_aside,
    check_window_fits,
)
from sublet.settings.nearest import nearest, unknown
from sublet.settings.text import duration_text, parse_duration, parse_setting, setting_text
from sublet.settings.value import (
    DEFINITIONS,
    PREFIX,
    SIGHTINGS_SUFFIX,
    Settings,
    setting_values,
    unknown_setting,
)

__all__ = [
    "DEFINITIONS",
    "POLLS_PER_SECOND_MAX",
    "POLL_LIMIT_MAX",
    "PREFIX",
    "READ_BYTES_PER_SECOND",
    "SIGHTINGS_SUFFIX",
    "Balance",
    "Checkpointing",
    "Definition",
    "FailureDetails",
    "HandlerContract",
    "HashRangeFilter",
    "KclFleet",
    "LogExceptions",
    "Mode",
    "Only",
    "Settings",
    "StartKind",
    "StartPosition",
    "check_sets_aside",
    "check_window_fits",
    "duration_text",
    "nearest",
    "parse_duration",
    "parse_setting",
    "setting_text",
    "setting_values",
    "unknown",
    "unknown_setting",
]
