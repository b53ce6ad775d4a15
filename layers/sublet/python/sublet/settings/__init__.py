"""All settings of a deployment.

value           Settings: each setting's name, type, default, range and reason
definition      what an annotation there may say (ranges, patterns, runtime, name elsewhere), and the resulting
                definitions
kinds           the enums and the start position that settings use
combinations    checks over several settings
suggestions     for a misspelt name
service_links   variables of Kubernetes that look like settings
text            settings as text, in the environment and on a command line
stream_choice   which streams an application of several reads
stream_filters  filters of single streams among them
reasons         each setting's reason, for documents and help
"""

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
    StartKind,
    StartPosition,
    Tracing,
)
from sublet.settings.combinations import (
    POLL_LIMIT_MAX,
    POLLS_PER_SECOND_MAX,
    READ_BYTES_PER_SECOND,
    check_sets_aside,
    check_window_fits,
)
from sublet.settings.definition import Definition, OnlyFor
from sublet.settings.stream_choice import StreamChoice, StreamSelector
from sublet.settings.suggestions import nearest, unknown
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
    "HotShardKeys",
    "KclFleet",
    "LogExceptions",
    "MetricsByShard",
    "MetricsExport",
    "MetricsLevel",
    "Mode",
    "OnlyFor",
    "Reading",
    "Settings",
    "StartKind",
    "StartPosition",
    "StreamChoice",
    "StreamSelector",
    "Tracing",
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
