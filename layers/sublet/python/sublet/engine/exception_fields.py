"""What the log tells of an exception. Its text goes nowhere else: it may hold what a record holds."""

from __future__ import annotations

from traceback import format_exception

from sublet.settings import LogExceptions

FRAMES_MAX = 5

TEXT_MAX = 32_000
"""Characters. CloudWatch refuses an event of more than 256 KB, and a message may quote a whole batch."""


def exception_fields(failure: BaseException, how: LogExceptions) -> dict[str, str]:
    """Fields for one log line: its type and frames, and, if all is wanted, the traceback as Python prints it."""
    fields = {"error": type(failure).__name__, "frames": frames_of(failure)}
    if how is LogExceptions.FRAMES:
        return fields
    return {**fields, "traceback": exception_text(failure)}


def exception_text(failure: BaseException) -> str:
    """As Python prints it, traceback and all."""
    return _shortened("".join(format_exception(failure)))


def frames_of(failure: BaseException) -> str:
    """File and line of each frame, innermost last: enough to find it."""
    frames, traceback = [], failure.__traceback__
    while traceback is not None:
        frames.append(f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return " > ".join(frames[-FRAMES_MAX:])


def _shortened(text: str) -> str:
    """Its beginning and its end: where it was raised stands between them, and in the frames."""
    if len(text) <= TEXT_MAX:
        return text
    half = TEXT_MAX // 2
    return f"{text[:half]}\n[... {len(text) - TEXT_MAX} characters ...]\n{text[-half:]}"
