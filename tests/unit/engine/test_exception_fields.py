"""A log line has the beginning and the end of an exception's text, and says how much is missing between them."""

from __future__ import annotations

import json
from traceback import format_exception

import pytest
from sublet.engine.exception_fields import TEXT_MAX, exception_fields, exception_text
from sublet.protocol.shortened_text import ROOM_FOR_MISSING
from sublet.settings import LogExceptions


def test_a_failure_that_quotes_a_whole_batch_still_fits_into_one_line_of_the_log() -> None:
    fields = exception_fields(ValueError("x" * 10**6), LogExceptions.FULL)
    assert len(fields["traceback"]) <= TEXT_MAX


@pytest.mark.parametrize("character", ["\n", "错", "😀", "\ud800", "\x00"])
def test_exception_text_is_limited_by_its_length_in_json(character: str) -> None:
    text = exception_text(ValueError(character * 40_000))
    assert TEXT_MAX - 100 < len(json.dumps(text)) <= TEXT_MAX + 2


@pytest.mark.parametrize("missing", [0, 2, 1_000])
def test_long_exception_text_keeps_both_ends_and_the_missing_length(missing: int) -> None:
    fault = ValueError("a" * (TEXT_MAX // 2) + "b" * (TEXT_MAX // 2 + missing))
    text, whole = exception_text(fault), "".join(format_exception(fault))
    half = (TEXT_MAX - ROOM_FOR_MISSING) // 2
    left = whole[:half], whole[-half + 1 :]  # a new line takes two bytes
    assert text == f"{left[0]}\n[... {len(whole) - len(left[0]) - len(left[1])} characters ...]\n{left[1]}"


def test_a_text_that_just_fits_is_whole() -> None:
    fault = ValueError("x" * (TEXT_MAX - len("ValueError: \\n")))
    assert exception_text(fault) == f"{type(fault).__name__}: {fault}\n"


def test_exception_fields_without_text_are_type_and_frames() -> None:
    assert exception_fields(ValueError("secret"), LogExceptions.FRAMES) == {
        "error": "ValueError",
        "frames": "",
    }
