"""Equivalent mutants (known.txt), each with its reason: they do not count for the score."""

from __future__ import annotations

from pathlib import Path

KNOWN = Path(__file__).with_name("known.txt")


def known_mutants() -> dict[str, str]:
    """Reasons by mutants' texts. In the file, a reason is a line that begins with "# ", followed by its mutants."""
    reasons, reason = dict[str, str](), ""
    for line in filter(None, KNOWN.read_text().splitlines()):
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        else:
            reasons[line] = reason
    return reasons
