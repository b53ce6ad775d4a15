"""The final report: the figures, the proof, and where to look next."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.flights import Figures
from demo.proof import EXAMPLES, Proof
from demo.snapshot import Snapshot

LOOK_NEXT = """\
Where to look next
  examples/flights/flights.py    the handler you just watched: a batch that comes twice counts once
  examples/                      more handlers to start from; docs/handlers.md, how to write and test one
  infra/sublet_cdk/              the construct that was deployed, for a stack of your own
  make local                     the same AWS to try things on; make test kills workers in mid-window\
"""


def draw_report(
    proof: Proof, last: Snapshot, expected: Mapping[str, Figures], names: Mapping[str, str]
) -> RenderableType:
    """`last`: the last snapshot of the running consumer."""
    return Group(
        figures_table(proof.figures, expected, names),
        Text(),
        checks(proof),
        _notes(proof, last),
        Text(),
        Text(LOOK_NEXT),
    )


def figures_table(found: Mapping[str, Figures], expected: Mapping[str, Figures], names: Mapping[str, str]) -> Table:
    """Shows what is stored beside the data set's figures."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bright_black")
    table.add_column("\ncarrier", no_wrap=True)
    for column in (
        "handled\nflights",
        "minutes late\nout",
        "\nin",
        "   data set\nflights",
        "minutes late\nout",
        "\nin",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for carrier in sorted(expected.keys() | found.keys(), key=lambda c: -_flights(c, expected, found)):
        stored, wanted = found.get(carrier, Figures()), expected.get(carrier, Figures())
        same = Text("✓", style="green") if stored == wanted else Text("✗", style="bold red")
        table.add_row(f"{carrier} {names.get(carrier, '')}", *_columns(stored), *_columns(wanted), same)
    return table


def _flights(carrier: str, *stores: Mapping[str, Figures]) -> int:
    return max(store.get(carrier, Figures()).flights for store in stores)


def _columns(figures: Figures) -> tuple[str, str, str]:
    return (
        f"{figures.flights:,}",
        _mean(figures.departure_delay, figures.departed),
        _mean(figures.arrival_delay, figures.arrived),
    )


def _mean(total: int, count: int) -> str:
    return f"{total / count:.2f}" if count else "-"


def checks(proof: Proof) -> Table:
    """The lines of the proof."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column()
    check(table, f"{proof.handled:,} of {proof.expected:,} events handled", proof.handled == proof.expected)
    check(table, f"{proof.missing:,} events missing", not proof.missing)
    order = f"{proof.keys:,} partition keys in order, {proof.keys_that_moved:,} of them from shard to shard"
    check(table, f"{len(proof.disorder):,} breaks of order" if proof.disorder else order, not proof.disorder)
    for problem in proof.disorder[:EXAMPLES]:
        table.add_row("", Text(problem, style="red"))
    differing = f"differing figures: {', '.join(proof.differing)}"
    check(
        table,
        differing if proof.differing else "every carrier's figures are the data set's",
        not proof.differing,
    )
    return table


def _notes(proof: Proof, last: Snapshot) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_row("·", f"{proof.redelivered:,} events delivered more than once; that changed nothing")
    if proof.repeated:
        twice = f"{proof.repeated:,} events were put twice, because an answer of Kinesis was lost or late"
        table.add_row("·", f"{twice}; the handler counted each once")
    moved = f"{last.sent_again:,} events met a split on their way and were sent again"
    table.add_row("·", f"{moved}; the consumer dropped {last.dropped:,}, as KCL does")
    return table


def check(table: Table, what: str, holds: bool) -> None:
    """A line of the proof."""
    table.add_row(Text("✓", style="bold green") if holds else Text("✗", style="bold red"), what)
