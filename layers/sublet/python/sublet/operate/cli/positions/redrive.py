"""`sublet redrive`: passes records that were set aside to the handler again."""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.command_line.command import Command
from sublet.command_line.settings_options import FIRST, add_setting, settings_of
from sublet.command_line.terminal_text import HarmlessLines, printable
from sublet.decisions.plurals import counted
from sublet.errors import SettingsError
from sublet.operate.cli.text.record_text import RecordForm, text_of
from sublet.settings import DEFINITIONS
from sublet.settings.value import variable_of

if TYPE_CHECKING:
    from sublet.operate.redrive import RedriveProgress
    from sublet.ports import SetAsideStore
    from sublet.protocol.failure_document import SetAsideBatch

DESCRIPTION = """\
Pass the records that an application has set aside to its handler again, in order within each shard: from an SQS queue,
a folder of S3, or a folder of this machine that `sublet skip` has filled. Batches that succeed are removed. Batches
that fail again stay, and so do those of other applications. Each batch is passed as a whole and tried once; delivery is
at least once, as always. The exit code is 1 if anything stays, or if fewer batches came than the store had counted.

The handler may have handled later records of the same shard long ago, and can check batch.is_redrive: see "What a
redrive delivers" in docs/handlers.md.

During the redrive a queue's messages are hidden from other consumers, and until 15 minutes after it if it is killed;
redrive also asks the queue how many were hidden before (sqs:GetQueueAttributes). A dead-letter queue counts each
redrive, --dry-run and --show as one receive. A FIFO queue returns ten batches of a shard at a time: once ten of a shard
stay, it returns no more of that shard, and redrive names the shard."""

EXAMPLES = """\
examples:
  sublet redrive --from arn:aws:sqs:eu-west-1:123456789012:given-up --application orders-audit --dry-run
  sublet redrive --from arn:aws:s3:::given-up/sublet --max-rate 200 \\
      --application orders-audit --stream orders --handler orders:handle
  sublet redrive --from orders-audit-skipped --application orders-audit --stream orders --handler orders:handle"""

SETTINGS = ("application", "stream", "handler", "handler_contract", "checkpointing", "log_exceptions")


def add_arguments(parser: ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.add_argument(
        "--from",
        dest="source",
        metavar="ARN|FOLDER",
        type=destination,
        help="the ARN of a queue, or of a bucket with or without /prefix; or a folder of this machine",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only show what is there: each batch's shard, positions, reason, error and time; it needs no "
        "handler, and removes nothing",
    )
    parser.add_argument("--show", action="store_true", help="as --dry-run, with each batch's records: payloads")
    parser.add_argument(
        "--max-rate",
        metavar="RECORDS",
        type=rate,
        help="at most so many records a second on average; batches stay whole (default: no limit)",
    )
    for name in SETTINGS:
        add_setting(parser, DEFINITIONS[name])


def destination(text: str) -> str:
    """Returns the given ARN or folder. Checks it here, so that the error names the option and not the setting."""
    if not text.startswith("arn:"):
        if not Path(text).is_dir():
            raise ArgumentTypeError(f"{text!r} is not {DEFINITIONS['on_failure'].allowed.described}, nor a folder")
        return text
    try:
        DEFINITIONS["on_failure"].check(text)
    except SettingsError as refused:
        raise ArgumentTypeError(f"{text!r} is not {refused.allowed}") from None
    return text


def rate(text: str) -> float:
    from sublet.operate.redrive_text import rate_of

    try:
        return rate_of(text)
    except ValueError as refused:
        raise ArgumentTypeError(str(refused)) from None


def redrive(options: Namespace) -> int:
    from sublet.aws.schema_registries import decoder_of_settings
    from sublet.handlers.load import load_handler
    from sublet.operate.redrive import Redrive
    from sublet.operate.redrive_text import note, said
    from sublet.system.clock import SystemClock
    from sublet.system.python_log import PythonLog
    from sublet.system.threads import ThreadTasks

    is_dry = options.dry_run or options.show
    settings = settings_of(options, os.environ, () if is_dry else FIRST)
    store = _store(options.source or settings.on_failure)
    lines = logging.StreamHandler()
    lines.setFormatter(HarmlessLines())
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    logging.getLogger("botocore").setLevel(logging.WARNING)  # otherwise it logs where it found credentials
    sys.path.insert(0, str(Path.cwd()))  # like `python -m`: finds a handler in this folder
    handler = None if is_dry else load_handler(settings.handler, settings)
    if not is_dry:
        print(f"sublet: {note(settings.handler_contract)}", file=sys.stderr, flush=True)
    with shown() as show:
        log = PythonLog("sublet.redrive")
        done = Redrive(
            store,
            handler,
            settings,
            SystemClock(),
            log,
            show,
            is_dry,
            options.max_rate,
            ThreadTasks().signal().wait,
            decoder_of_settings(settings, SystemClock()),
            partial(_found, shows_records=options.show),
        ).run()
    print(said(done, dry_run=is_dry))
    return 0 if done.is_complete or is_dry else 1


def _found(batch: SetAsideBatch, *, shows_records: bool) -> None:
    from sublet.operate.rules.set_aside_waiting import batch_text

    print("\n".join(printable(line) for line in batch_text(batch)))
    if shows_records:
        for record in batch.records:
            print(f"  {text_of(record, RecordForm.LINE)}", flush=True)


def _store(source: str | None) -> SetAsideStore:
    from sublet.aws.set_aside.failure_destinations import set_aside_store
    from sublet.operate.set_aside_folder import SetAsideFolder

    if source is None:
        raise SettingsError("on_failure", None, f"required; give --from, or set {variable_of('on_failure')}")
    if not source.startswith("arn:"):
        return SetAsideFolder(Path(source))
    store = set_aside_store(source)
    if store is None:
        raise SettingsError("on_failure", source, "a queue or a bucket: a topic stores nothing to redrive")
    return store


@contextmanager
def shown() -> Iterator[Callable[[RedriveProgress], None]]:
    """Shows a progress bar if there is a terminal and the extra `progress` is installed."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("redrive", total=None)

        def show(so_far: RedriveProgress) -> None:
            done, failed = counted(so_far.records_done, "record"), counted(so_far.failed, "batch", "batches")
            words = f"redrive: {done}, {failed} failed again"
            bar.update(
                task,
                description=words,
                total=so_far.batches - so_far.foreign,
                completed=so_far.done + so_far.failed + so_far.changed,
            )

        yield show


COMMAND = Command("redrive", "pass records that were set aside to the handler again", add_arguments, redrive)
