"""`sublet pause`, `resume`, `drain` and `release`: order an application's fleet to release leases, or to go on."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import printable
from sublet.errors import ControlRefused, LeaseTableNotFound
from sublet.operate.cli.options.arguments import add_shards, duration
from sublet.operate.cli.options.one_stream import add_one_stream, shards_of
from sublet.operate.cli.options.operated import operator
from sublet.operate.cli.text.pause_text import ordered_json, ordered_lines, progress_text
from sublet.operate.formatting import time_text
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.operate.pausing import ApplicationControl, OrderedPause
    from sublet.protocol.lease import Lease

PAUSE_DESCRIPTION = """\
Pause an application, or some of its shards. Within ten seconds or a tick, each worker finishes its batch, checkpoints
and releases the lease, and takes none until the pause ends, wherever it runs (Lambda, a process, a container, the pull
API, Spark). No position moves. Records wait in the stream, and are lost when its retention ends; the alarm for that
stays on.

Refused while workers of Java's KCL hold leases of the application: they would take what is released."""

PAUSE_EXAMPLES = """\
examples:
  sublet pause --application orders-audit
  sublet pause --application orders-audit --until 2h
  sublet pause --application orders-audit --shard shardId-000000000003 --shard shardId-000000000002"""

RESUME_DESCRIPTION = """\
End a pause or a drain, of some shards or of everything that is paused. The next tick sends workers again."""

RESUME_EXAMPLES = """\
examples:
  sublet resume --application orders-audit
  sublet resume --application orders-audit --shard shardId-000000000003"""

DRAIN_DESCRIPTION = """\
Stop a fleet before a deployment: every worker finishes its batch, checkpoints and releases its leases, and this command
waits for them. The fleet takes no lease until `sublet resume`.

The exit code is 0 when every lease is released, 1 if some are not by --timeout (the drain then stays in force), and 2
for an error, or if another operator ends the drain meanwhile."""

DRAIN_EXAMPLES = """\
examples:
  sublet drain --application orders-audit --timeout 10m"""

RELEASE_DESCRIPTION = """\
Ask the owner of one shard's lease to release it: it finishes its batch, checkpoints and releases. At the next tick,
another worker or the same one takes the lease.

The exit code is 0 when the lease is released, 1 if it is not by --timeout (the request is then withdrawn), and 2 for an
error, or if another operator ends the request meanwhile."""

RELEASE_EXAMPLES = """\
examples:
  sublet release shardId-000000000003 --application orders-audit"""


def add_pause_arguments(parser: ArgumentParser) -> None:
    explain(parser, PAUSE_DESCRIPTION, PAUSE_EXAMPLES)
    parser.add_argument(
        "--until",
        metavar="TIME",
        type=until,
        help="end the pause by itself at a time (with its zone), or after a duration such as 2h",
    )
    add_shards(parser)
    _add_shared(parser)


def add_resume_arguments(parser: ArgumentParser) -> None:
    explain(parser, RESUME_DESCRIPTION, RESUME_EXAMPLES)
    parser.add_argument("--force", action="store_true", help="resume even if the stored orders cannot be read")
    add_shards(parser)
    _add_shared(parser)


def add_drain_arguments(parser: ArgumentParser) -> None:
    explain(parser, DRAIN_DESCRIPTION, DRAIN_EXAMPLES)
    _add_timeout(parser, "15m")
    _add_shared(parser)


def add_release_arguments(parser: ArgumentParser) -> None:
    explain(parser, RELEASE_DESCRIPTION, RELEASE_EXAMPLES)
    parser.add_argument("shard", metavar="SHARD")
    _add_timeout(parser, "5m")
    _add_shared(parser)


def _add_timeout(parser: ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        type=duration,
        default=duration(default),
        help=f"how long to wait, such as 90s [{default}]",
    )


def _add_shared(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_one_stream(parser)
    for name in ("application", "failover_time"):
        add_setting(parser, DEFINITIONS[name])


def until(text: str) -> Callable[[datetime], datetime]:
    """Parses when a pause ends. Returns a function from the moment at which the pause begins to its end."""
    from sublet.operate.pausing import ends_at

    try:
        return ends_at(text)
    except ControlRefused as refused:
        raise ArgumentTypeError(str(refused)) from None


def pause(options: Namespace) -> int:
    from sublet.protocol.control import Order

    pausing = _pausing(options)
    shards = _meant(options, pausing, options.shards)
    _show(options, pausing, pausing.order(pausing.pause(Order.PAUSE, operator(), options.until), shards))
    return 0


def resume(options: Namespace) -> int:
    pausing = _pausing(options)
    if options.force and pausing.ports.control is not None:
        pausing.ports.control.replace_unreadable()
    ended = pausing.resume(_meant(options, pausing, options.shards))
    if options.json:
        print(json.dumps({"application": pausing.application, "resumed": sorted(ended)}, indent=2))
        return 0
    for what, was in sorted(ended.items()):
        print(f"{what}: the {was.order} by {printable(was.by)} since {time_text(was.since)} is over")
    if not ended:
        print(f"nothing of {pausing.application} was paused")
    return 0


def drain(options: Namespace) -> int:
    pausing = _pausing(options)
    if _meant(options, pausing, ()):
        raise ControlRefused(
            "a drain is of the whole application: leave --stream out, or pause that stream. Nothing was changed"
        )
    try:
        drained = pausing.drain(operator(), options.timeout, _show_progress)
    except KeyboardInterrupt:
        print(
            "sublet: not waiting any longer; a drain that was ordered stays in force until `sublet resume`",
            file=sys.stderr,
        )
        raise
    _show(options, pausing, drained)
    if drained.held:
        print(
            "sublet: not all leases are released; the drain stays in force until `sublet resume`",
            file=sys.stderr,
        )
    return 1 if drained.held else 0


def release(options: Namespace) -> int:
    pausing = _pausing(options)
    (shard,) = _meant(options, pausing, [options.shard])
    released = pausing.release(operator(), shard, options.timeout, _show_held)
    _show(options, pausing, released)
    if released.held:
        print(
            "sublet: the owner has not released it, and the request is withdrawn. If a handler call of the owner "
            "hangs, end its process: another worker takes the lease after failover_time",
            file=sys.stderr,
        )
    return 1 if released.held else 0


def _pausing(options: Namespace) -> ApplicationControl:
    from sublet.operate.aws.ports import CommandPorts
    from sublet.operate.pausing import ApplicationControl

    settings = settings_of(options, os.environ, required=("application",))
    ports = CommandPorts(settings)
    try:
        ports.sightings.load()
    except LeaseTableNotFound:
        raise ControlRefused(
            f"there is no table {settings.sightings_table}: no sublet worker consumes as {settings.application}, and "
            "other workers obey no pause. Is the application's name right?"
        ) from None
    return ApplicationControl(settings.application, ports, settings)


def _meant(options: Namespace, pausing: ApplicationControl, shards: Sequence[str]) -> Sequence[str]:
    """Returns the shards to act on; empty: all of the application."""
    if options.one_stream is None:
        return shards
    known, scan = pausing.ports.sightings.load().stream, pausing.ports.table.scan()
    return shards_of(options.one_stream, shards, scan, pausing.application, known)


def _show_progress(left: Sequence[Lease]) -> None:
    print(f"sublet: {progress_text(left)}", file=sys.stderr, flush=True)


def _show_held(left: Sequence[Lease]) -> None:
    """Shows the progress of a release until the one lease is released. After that there is nothing to wait for."""
    if left:
        _show_progress(left)


def _show(options: Namespace, pausing: ApplicationControl, ordered: OrderedPause) -> None:
    if options.json:
        print(json.dumps(ordered_json(pausing.application, ordered), indent=2))
    else:
        print("\n".join(ordered_lines(pausing.application, ordered)))


PAUSE = Command("pause", "have the workers release all leases, until resume", add_pause_arguments, pause)
RESUME = Command("resume", "end a pause or a drain", add_resume_arguments, resume)
DRAIN = Command("drain", "pause, and wait until everything is checkpointed and released", add_drain_arguments, drain)
RELEASE = Command("release", "ask the owner of a lease to release it", add_release_arguments, release)
