"""The live view: a Snapshot as something that rich can draw."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from sublet.decisions.status.shard_status import BAD_STATUSES
from sublet.decisions.status.status_rules import Status
from sublet.operate.cli.monitor.status import standing_text
from sublet.operate.formatting import age_text
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard, creation_order

from demo.snapshot import Snapshot

WIDTH = 108
"""Columns, if the terminal has them."""

RANGE_CELLS = 16
PROGRESS_CELLS = 56
LAG_FULL = 6_000
"""Events waiting in a shard that fill its lag bar."""

HAPPENINGS_SHOWN = 4
SHADES = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
"""A worker id's colour, by its last digit."""
SPARK_SHADE = "bright_yellow"
_WORDS = {
    Status.ENDED: "bright_black",
    Status.WAITING: "bright_black",
    Status.UNKNOWN: "bright_black",
    **dict.fromkeys(BAD_STATUSES, "bold red"),
}
"""Others are green."""


def draw(snapshot: Snapshot, width: int = WIDTH) -> RenderableType:
    """The whole view. Its height only changes with new shards. Below WIDTH it leaves out the hash keys."""
    below = _happenings(snapshot) if snapshot.shards else Text(snapshot.detail, style="bright_black", no_wrap=True)
    width = min(width, WIDTH)
    return Panel(
        Group(
            _phases(snapshot),
            Text(),
            _shards(snapshot, width),
            Text(),
            _progress(snapshot, width),
            Text(),
            below,
        ),
        title="[bold]sublet[/] · the flights of New York, 2013, on four shards",
        subtitle=f"{clock(snapshot.elapsed)}{_standing(snapshot)}",
        width=width,
        padding=(0, 2),
        border_style="bright_black",
    )


def _standing(snapshot: Snapshot) -> str:
    """Says how the shards stand, in the statuses of `sublet status`."""
    return "" if snapshot.fleet is None else f" · {standing_text(snapshot.fleet)}"


def _phases(snapshot: Snapshot) -> Text:
    """A phase that is not in the plan comes after it."""
    plan, line = snapshot.plan, Text(no_wrap=True, overflow="ellipsis")
    reached = plan.index(snapshot.phase) if snapshot.phase in plan else len(plan)
    for index, phase in enumerate(plan):
        mark, style = (
            ("✓", "green") if index < reached else ("●", "bold") if index == reached else ("○", "bright_black")
        )
        line.append(f"{mark} ", style=style).append(f"{phase}  ", style="" if index < reached else style)
    return line


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def progress_line(snapshot: Snapshot) -> str:
    """One line, for output without a terminal."""
    by_spark = sum(snapshot.by_spark.values())
    spark = f" ({by_spark:,} by Spark)" if by_spark else ""
    return (
        f"{clock(snapshot.elapsed)}  {snapshot.phase}: {snapshot.put_in_all:,} put, "
        f"{snapshot.handled_in_all:,} of {snapshot.total:,} handled{spark}, {sum(snapshot.rates.values()):,.0f} a "
        f"second; {snapshot.ticks} ticks, {snapshot.windows} windows ({snapshot.windows_running} running)"
    )


def short(shard_id: str) -> str:
    """`shardId-000000000007` as `7`."""
    return shard_id.rpartition("-")[2].lstrip("0") or "0"


def _shards(snapshot: Snapshot, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bright_black")
    table.add_column("shard", width=9, no_wrap=True)
    table.add_column("owner", width=18, no_wrap=True)
    table.add_column("status", width=8, no_wrap=True)
    table.add_column("lag", width=4, justify="right", no_wrap=True)
    table.add_column("handled", width=8, justify="right", no_wrap=True)
    table.add_column("per s", width=6, justify="right", no_wrap=True)
    table.add_column("waiting", width=lag_cells(width), no_wrap=True)
    if width == WIDTH:
        table.add_column("hash keys", width=RANGE_CELLS, no_wrap=True)
    for shard, branch in _tree(snapshot.shards):
        table.add_row(*list(_row(snapshot, shard, branch, width))[: len(table.columns)])
    if not snapshot.shards:
        table.add_row(Text("none yet", style="bright_black"))
    return table


def lag_cells(width: int) -> int:
    """A terminal of 80 columns has room for the number and a short bar."""
    return 19 if width == WIDTH else 9


def _row(snapshot: Snapshot, shard: Shard, branch: str, width: int) -> Iterator[RenderableType]:
    lease, ended = snapshot.leases.get(shard.shard_id), snapshot.has_ended(shard)
    yield _name(shard, branch, ended=ended)
    yield _owner(shard, lease.owner if lease else None, ended=ended, has_lease=lease is not None)
    yield Text(lease.status if lease else "", style=_WORDS.get(lease.status, "green") if lease else "")
    yield Text(age_text(lease.lag) if lease and lease.lag is not None else "")
    yield Text(f"{snapshot.handled.get(shard.shard_id, 0):,}", style="bright_black" if ended else "")
    rate = snapshot.rates.get(shard.shard_id, 0)
    yield Text(f"{rate:,.0f}" if rate >= 1 else "", style="bold green")
    yield _lag(snapshot.waiting(shard.shard_id), lag_cells(width))
    yield _hash_keys(shard.hash_key_range, "bright_black" if ended else "blue" if shard.is_open else "yellow")


def _name(shard: Shard, branch: str, *, ended: bool) -> Text:
    style = "bright_black" if ended else "bold" if shard.is_open else "bold yellow"
    name = Text(branch, style="bright_black").append(short(shard.shard_id), style=style)
    if len(shard.parent_shard_ids) > 1:
        name.append(f" {'+'.join(map(short, sorted(shard.parent_shard_ids)))}", style="bright_black")
    return name


def _owner(shard: Shard, owner: str | None, *, ended: bool, has_lease: bool) -> Text:
    if ended:
        return Text("ended", style="bright_black")
    if owner:
        shade = SHADES[int(owner[-1]) % len(SHADES)] if owner[-1].isdigit() else SPARK_SHADE
        return Text("● ", style=shade).append(owner[-16:], style="")
    if not has_lease:
        return Text("no lease yet", style="bright_black")
    return Text("○ no owner" if shard.is_open else "○ no owner, closed", style="bright_black")


def _hash_keys(hash_keys: HashKeyRange, style: str) -> Text:
    """The shard's share of all hash keys, as a piece of a line."""
    begin = round(hash_keys.starting / (HASH_KEY_MAX + 1) * RANGE_CELLS)
    end = max(round((hash_keys.ending + 1) / (HASH_KEY_MAX + 1) * RANGE_CELLS), begin + 1)
    line = Text("·" * begin, style="bright_black")
    return line.append("━" * (end - begin), style=style).append("·" * (RANGE_CELLS - end), style="bright_black")


def _lag(waiting: int, cells: int) -> Text:
    number = f"{waiting:>6,} "
    room = cells - len(number)
    filled = min(-(-waiting * room // LAG_FULL), room)
    style = "green" if waiting < LAG_FULL / 3 else "yellow" if waiting < LAG_FULL else "red"
    return Text(number, style="" if waiting else "bright_black").append("█" * filled, style=style)


def _tree(shards: tuple[Shard, ...]) -> Iterator[tuple[Shard, str]]:
    """Each shard below its parent (the last of two), with the branch that leads to it."""
    listed = {shard.shard_id for shard in shards}
    children: dict[str | None, list[Shard]] = {}
    for shard in sorted(shards, key=creation_order):
        parents = sorted(shard.parent_shard_ids & listed)
        children.setdefault(parents[-1] if parents else None, []).append(shard)

    def below(parent: str | None, indent: str) -> Iterator[tuple[Shard, str]]:
        brood = children.get(parent, [])
        for index, shard in enumerate(brood):
            last = index == len(brood) - 1
            branch = "" if parent is None else indent + ("└─" if last else "├─")
            yield shard, branch
            yield from below(shard.shard_id, "" if parent is None else indent + ("  " if last else "│ "))

    return below(None, "")


def _progress(snapshot: Snapshot, width: int) -> Table:
    cells = min(PROGRESS_CELLS, width - 46)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bright_black", width=7)
    table.add_column(width=cells)
    table.add_column(no_wrap=True)
    again = f", {snapshot.sent_again:,} sent again" if snapshot.sent_again else ""
    kinds = f"{snapshot.aggregated:,} KPL-aggregated, {snapshot.plain:,} plain{again}"
    table.add_row(
        "put",
        _bar(snapshot.put_in_all, snapshot.total, "blue", cells),
        f"{snapshot.put_in_all:,} of {snapshot.total:,}",
    )
    rate = f"[bold green]{sum(snapshot.rates.values()):,.0f} a second[/]"
    table.add_row(
        "handled",
        _handled(snapshot, cells),
        f"{snapshot.handled_in_all:,} · {rate}",
    )
    group = Table.grid()
    group.add_row(table)
    if snapshot.parts:
        group.add_row(_parts(snapshot))
    group.add_row(Text(kinds, style="bright_black", no_wrap=True))
    group.add_row(Text(_fleet(snapshot), style="bright_black", no_wrap=True))
    return group


def _fleet(snapshot: Snapshot) -> str:
    return (
        f"{snapshot.ticks} ticks · {snapshot.executions} executions, {snapshot.executions_running} running · "
        f"{snapshot.windows} windows, {snapshot.windows_running} running"
    )


def _parts(snapshot: Snapshot) -> Text:
    """Shows how much each runtime has handled, and Spark's last message."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for runtime, events in snapshot.parts:
        line.append("━ ", style=_shade(runtime)).append(f"{runtime} {events:,}   ")
    return line.append(snapshot.spark, style="bright_black")


def _handled(snapshot: Snapshot, cells: int) -> Text:
    """The bar of handled events, with a piece for each part."""
    if not snapshot.parts:
        return _bar(snapshot.handled_in_all, snapshot.total, "green", cells)
    line, sofar = Text(), 0
    for runtime, events in snapshot.parts:
        sofar += events
        line.append("━" * (round(cells * min(sofar / snapshot.total, 1)) - len(line)), style=_shade(runtime))
    return line.append("━" * (cells - len(line)), style="bright_black dim")


def _shade(runtime: str) -> str:
    return SPARK_SHADE if runtime == "Spark" else "green"


def _bar(value: int, total: int, style: str, cells: int) -> Text:
    filled = round(cells * min(value / total, 1)) if total else 0
    return Text("━" * filled, style=style).append("━" * (cells - filled), style="bright_black dim")


def _happenings(snapshot: Snapshot) -> Text:
    lines = snapshot.happenings[-HAPPENINGS_SHOWN:]
    return Text("\n".join([*lines, *[""] * (HAPPENINGS_SHOWN - len(lines))]), overflow="ellipsis", no_wrap=True)
