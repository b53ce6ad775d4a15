"""Every setting of a deployment.

value      Settings itself: the names, the defaults, and a reason for each
kinds      what settings are made of beside numbers and durations
limits     what a Settings may hold
text       settings as text: in the environment, on a command line
"""

from sublet.settings.kinds import HashRangeFilter, Mode, StartKind, StartPosition
from sublet.settings.limits import POLL_LIMIT_MAX, POLLS_PER_SECOND_MAX, check_window_fits
from sublet.settings.text import duration_text, parse_duration, parse_setting, setting_text
from sublet.settings.value import PREFIX, Settings

__all__ = [
    "POLLS_PER_SECOND_MAX",
    "POLL_LIMIT_MAX",
    "PREFIX",
    "HashRangeFilter",
    "Mode",
    "Settings",
    "StartKind",
    "StartPosition",
    "check_window_fits",
    "duration_text",
    "parse_duration",
    "parse_setting",
    "setting_text",
]
