"""What the log says about an exception. Its text goes nowhere else, because it may contain a record's data."""

from __future__ import annotations

from traceback import format_exception

from sublet.protocol.shortened_text import shortened
from sublet.settings import LogExceptions

FRAMES_MAX = 5

FRAMES_BYTES_MAX = 4_000

TEXT_MAX = 32_000
"""Bytes of JSON. CloudWatch refuses an event of more than 256 KB, and a message may quote a whole batch."""


def exception_fields(failure: BaseException, how: LogExceptions) -> dict[str, str]:
    """Fields for one log line: the type and the frames, and with LogExceptions.FULL the traceback as Python prints
    it.
    """
    fields = {"error": type(failure).__name__, "frames": frames_of(failure)}
    if how is LogExceptions.FRAMES:
        return fields
    return {**fields, "traceback": exception_text(failure)}


def exception_text(failure: BaseException) -> str:
    """Returns the exception as Python prints it, with the traceback, shortened. The frames also say where it was
    raised.
    """
    return shortened("".join(format_exception(failure)), TEXT_MAX)


def frames_of(failure: BaseException) -> str:
    """File and line of each frame, innermost last: enough to find it."""
    frames, traceback = [], failure.__traceback__
    while traceback is not None:
        frames.append(f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return shortened(" > ".join(frames[-FRAMES_MAX:]), FRAMES_BYTES_MAX)
