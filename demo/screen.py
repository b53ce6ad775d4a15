"""Shows the story as a live view on a terminal, and otherwise as a line every few seconds."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live

from demo.snapshot import Snapshot
from demo.story import Story
from demo.view import WIDTH, draw, progress_line

LINE_EVERY = 5.0
"""Seconds between lines without a terminal."""

FRAMES_A_SECOND = 4

_FONT_FROM_ELSEWHERE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""rich names web fonts on a host that a README's readers should not have to contact; any monospaced font will do."""


@contextmanager
def shown(console: Console, story: Story, latest: Callable[[], Snapshot]) -> Iterator[None]:
    """Shows the story while the block runs."""

    def now() -> Snapshot:
        return story.complete(latest())

    if console.is_terminal:
        with Live(
            get_renderable=lambda: draw(now()),
            console=console,
            refresh_per_second=FRAMES_A_SECOND,
            vertical_overflow="crop",
        ):
            yield
        return
    over = threading.Event()
    lines = threading.Thread(target=_print_lines, args=(console, now, over), daemon=True)
    lines.start()
    try:
        yield
    finally:
        over.set()
        lines.join()


def save_svg(path: Path, *frames: RenderableType, title: str = "make demo") -> None:
    """Saves the frames, one below the other, as a picture of a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for frame in frames:
        console.print(frame)
        console.print()
    path.parent.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(title=title)
    path.write_text(_FONT_FROM_ELSEWHERE.sub("", svg), encoding="utf-8")


def _print_lines(console: Console, now: Callable[[], Snapshot], over: threading.Event) -> None:
    told, last = 0, ""
    while True:
        is_over = over.wait(LINE_EVERY)
        snapshot = now()
        for happening in snapshot.happenings[told:]:
            console.print(happening, soft_wrap=True, markup=False, highlight=False)
        told = len(snapshot.happenings)
        if (line := progress_line(snapshot)) != last:
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        last = line
        if is_over:
            return
