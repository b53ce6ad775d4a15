"""Where something was raised, for the log: never the exception's text, which may hold what a record holds."""

from __future__ import annotations

FRAMES_MAX = 5


def frames_of(failure: BaseException) -> str:
    """File and line of each frame, innermost last: enough to find it."""
    frames, traceback = [], failure.__traceback__
    while traceback is not None:
        frames.append(f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return " > ".join(frames[-FRAMES_MAX:])
