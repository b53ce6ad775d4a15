"""The final report: figures, events by runtime, the proof, and where to look next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.flights import Figures
from demo.report import check, figures_table
from demo.snapshot import Snapshot
from demo.spark.proof import Proof

LOOK_NEXT = """\
Where to look next
  docs/spark.md              "Sharing leases with a fleet": what is guaranteed, and how
  examples/pipeline/         the schema, and the table per carrier. In that folder, the same as one command:
      sublet pipeline --stream flights --application flights --leases hold \\
          --schema flights.json --transform carriers:tables --output lake
  demo/spark/switch.py       how the fleet was stopped and started again: two calls each\
"""

WHEN = ("before Spark", "while Spark held the leases", "after Spark released them")
PART_CELLS = 40


def draw_report(
    proof: Proof, last: Snapshot, expected: Mapping[str, Figures], names: Mapping[str, str], kept: Path | None
) -> RenderableType:
    """`last`: the last snapshot. `kept`: where the tables stay, if they do."""
    tables = (
        f"  {kept}   the tables: raw, parsed, carriers"
        if kept
        else "  make demo-spark KEEP=lake  keeps the Parquet tables in the folder lake"
    )
    return Group(
        figures_table(proof.figures, expected, names),
        Text(),
        _parts(proof),
        Text(),
        _checks(proof),
        _notes(last),
        Text(),
        Text(f"{LOOK_NEXT}\n{tables}"),
    )


def _parts(proof: Proof) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=8)
    table.add_column(justify="right")
    table.add_column(width=PART_CELLS, no_wrap=True)
    table.add_column(style="bright_black")
    for part, when in zip(proof.parts, WHEN, strict=True):
        cells = round(PART_CELLS * part.events / max(proof.expected, 1))
        style = "bright_yellow" if part.runtime == "Spark" else "green"
        table.add_row(part.runtime, f"{part.events:,}", Text("━" * cells, style=style), when)
    return table


def _checks(proof: Proof) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column()
    check(table, f"{proof.handled:,} of {proof.expected:,} events handled", proof.handled == proof.expected)
    check(
        table,
        "Lambda, Spark and Lambda handled events, in this order",
        all(part.events for part in proof.parts),
    )
    check(table, f"{proof.missing:,} events missing", not proof.missing)
    check(table, f"{proof.overlap:,} events handled twice", not proof.overlap)
    order = (
        f"{proof.out_of_turn:,} partition keys out of order" if proof.out_of_turn else "every partition key in order"
    )
    check(table, order, not proof.out_of_turn)
    check(table, f"{proof.rejected:,} rows rejected by the schema", not proof.rejected)
    differing = f"differing figures: {', '.join(proof.differing)}"
    same = "every carrier's figures in DynamoDB and Parquet add up to the data set's"
    check(table, differing if proof.differing else same, not proof.differing)
    return table


def _notes(last: Snapshot) -> Table:
    table = Table.grid(padding=(0, 1))
    again = f"{last.redelivered:,} events delivered more than once to the handler, which counts them once"
    table.add_row("·", again)
    return table
