"""The errors' tree, as its module's docstring draws it."""

from __future__ import annotations

import inspect
import re

from sublet import errors
from sublet.errors import (
    LeaseTableError,
    LeaseTableUnavailable,
    RecordTimedOut,
    SchemaRegistryUnavailable,
    StreamError,
    StreamUnavailable,
    StreamUnreachable,
    SubletError,
    TransientError,
)

ALL = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, SubletError)]


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = re.findall(r"^    (?:[│ ]   )*(?:[├└]── )(\w+) ", str(errors.__doc__), re.MULTILINE)
    assert sorted(drawn) == sorted(each.__name__ for each in ALL if each is not SubletError)


def test_transient_errors_are_recognized_by_their_type() -> None:
    assert {each for each in ALL if issubclass(each, TransientError)} == {
        TransientError,
        StreamUnavailable,
        StreamUnreachable,
        SchemaRegistryUnavailable,
        LeaseTableUnavailable,
        RecordTimedOut,
    }
    assert issubclass(StreamUnavailable, StreamError)
    assert issubclass(LeaseTableUnavailable, LeaseTableError)
