"""`sublet console`: what an operator sees and moves, on a page that this machine serves to itself."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING

from sublet.cli.command import Command, explain
from sublet.cli.operated import operated
from sublet.cli.settings_options import add_setting, settings_of
from sublet.errors import SettingsError, SubletError
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.account import Account
    from sublet.console.access import SignIn
    from sublet.console.applications import OpenApplication, Redriver, SetAsidePlace
    from sublet.decisions.hot_shards import HotShard
    from sublet.inspection import Inspection
    from sublet.ports import Ports
    from sublet.settings import Settings

DESCRIPTION = """\
Open a page that shows applications, Java KCL's too: each shard's state, lag and owner, live; the records that come next; and the
positions, to move them after you have seen the plan. It runs on this machine with your AWS credentials, until Ctrl-C.

The last hour is drawn by an application's metrics where CloudWatch has them (cloudwatch:GetMetricData, once a minute while its
page is open, which costs $0.002 an hour), and else by what was seen since the console was started.

Without a name it shows every application of the account and region, which reads each of its lease tables every minute. A KCL
application's table does not say which stream it is of: name it with its stream, for its lag and records.

The page is read-only without --allow-changes. With --handler it can also redrive what the application has set aside, which calls
your handler in this process. It listens on this machine alone, and the printed link lets one browser in, once;
press Enter for another link. On another address everyone who can reach it may try, so that --address requires --token; put a
proxy with TLS in front of it, or better, use an SSH tunnel to the console on loopback."""

EXAMPLES = """\
examples:
  sublet console
  sublet console orders-audit=orders billing-kcl=orders
  sublet console orders-audit=orders --allow-changes
  sublet console orders-audit=orders --allow-changes --handler orders:handle
  sublet console --address 0.0.0.0 --token @token.txt --host-name console.example.com"""

LISTED_FOR = timedelta(minutes=5)
PORT = 8470
LOOPBACK = "127.0.0.1"
EXTRA = ("jinja2", "starlette", "uvicorn")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "applications", nargs="*", metavar="APPLICATION[=STREAM]", help="only these, each with its stream"
    )
    parser.add_argument("--allow-changes", action="store_true", help="let the page move positions")
    parser.add_argument(
        "--handler", metavar="MODULE:FUNCTION",
        help="of the one application that is named: lets the page redrive what it has set aside",
    )  # fmt: skip
    add_setting(parser, DEFINITIONS["handler_contract"])
    parser.add_argument(
        "--port", type=int, default=PORT, metavar="NUMBER", help=f"0: a free one (default: {PORT})"
    )
    parser.add_argument("--address", default=LOOPBACK, metavar="ADDRESS", help=f"default: {LOOPBACK}")
    parser.add_argument("--token", metavar="TOKEN", help="lets a person sign in; @FILE reads it from a file")
    parser.add_argument(
        "--host-name", dest="host_names", action="append", default=[], metavar="NAME",
        help="a name under which browsers reach it; may be repeated",
    )  # fmt: skip
    parser.add_argument("--no-browser", action="store_true", help="only print the link")


def run_console(options: Namespace) -> int:
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise SubletError(
            f"the console needs {', '.join(missing)}, which is not here: install sublet with its extra console"
        )
    from sublet import __version__
    from sublet.aws.account import AwsAccount
    from sublet.cli.pausing import operator
    from sublet.console.access import SignIn
    from sublet.console.console import Console
    from sublet.console.hosts import is_loopback
    from sublet.console.plans import Plans
    from sublet.console.server import listen, serve
    from sublet.console.watching import Watching

    token = token_of(options.token)
    if token is None and not is_loopback(options.address):
        raise SettingsError(
            "address", options.address, "on this machine, such as 127.0.0.1, unless --token is given"
        )
    _log_to_standard_error()
    account = AwsAccount()
    named_ones = named(options.applications)
    applications = AwsApplications(account, named_ones, redriver_of(options, named_ones), options)
    clock, tasks, log = account.clock, account.tasks, account.log
    console = Console(
        applications,
        SignIn(clock, partial(secrets.token_urlsafe, 18), token),
        Watching(applications, clock, tasks, log),
        Plans(clock, tasks, log, partial(secrets.token_urlsafe, 12)),
        clock,
        log,
        options.allow_changes,
        operator(),
        __version__,
    )
    applications.names()  # what is wrong with the account is said here, and not on the page
    with_browser = not options.no_browser and sys.stdout.isatty()
    serve(
        console,
        listen(options.address, options.port),
        frozenset(name.lower() for name in options.host_names),
        lambda origin: _say(origin, console.access, with_browser=with_browser),
    )
    return 0


def redriver_of(options: Namespace, named_ones: Mapping[str, str | None]) -> Redriver | None:
    """Loads the handler when the console starts, so that errors in it show there. Raises HandlerNotLoadable and SettingsError."""
    if options.handler is None:
        return None
    if len(named_ones) != 1:
        raise SettingsError(
            "handler", options.handler, "the handler of one application: name it, as in orders-audit=orders"
        )
    from sublet.console.applications import Redriver
    from sublet.handlers.load import load_handler

    ((application, stream),) = named_ones.items()
    settings = _settings(application, stream, options)
    sys.path.insert(0, str(Path.cwd()))  # like `python -m`: finds a handler in this folder
    return Redriver(load_handler(settings.handler, settings))


def _settings(application: str, stream: str | None, options: Namespace | None) -> Settings:
    return settings_of(_stated(application, stream, options), os.environ, required=("application",))


def _stated(application: str, stream: str | None, options: Namespace | None) -> Namespace:
    handler = {} if options is None else {"handler": options.handler}
    contract = {} if options is None else {"handler_contract": options.handler_contract}
    return Namespace(application=application, stream=stream, **handler, **contract)


def token_of(text: str | None) -> str | None:
    """Raises SettingsError, whose text does not contain the token."""
    from sublet.console.access import TOKEN_LENGTH_MIN

    if text is not None and text.startswith("@"):
        try:
            text = Path(text[1:]).read_text().strip()
        except OSError as problem:
            raise SettingsError("token", text, f"a file that can be read: {problem.strerror}") from None
    if text is not None and len(text) < TOKEN_LENGTH_MIN:
        raise SettingsError(
            "token", "…", f"at least {TOKEN_LENGTH_MIN} characters, such as `openssl rand -hex 20` prints"
        )
    return text


def named(texts: Sequence[str]) -> Mapping[str, str | None]:
    """Returns the streams by application."""
    pairs = (text.partition("=") for text in texts)
    return {application: stream or None for application, _, stream in pairs}


def _say(origin: str, access: SignIn, *, with_browser: bool) -> None:
    link = f"{origin}/open?link={access.new_link()}"
    print(f"The console is at {link}\nCtrl-C ends it; Enter prints another link.", flush=True)
    if with_browser:
        import webbrowser

        webbrowser.open(link)
    if sys.stdin.isatty():
        Thread(target=_print_links, args=(origin, access), daemon=True).start()


def _print_links(origin: str, access: SignIn) -> None:
    for _ in sys.stdin:
        print(f"{origin}/open?link={access.new_link()}", flush=True)


def _log_to_standard_error() -> None:
    """Logs a line with its time for each change: who moved what to where."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("sublet")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


@dataclass(slots=True)
class AwsApplications:
    """The Applications port over an account.

    named     streams by application; empty: those that the account has
    redriver  of the one that is named; None: no handler was given
    options   the command's, with what names the handler
    """

    account: Account
    named: Mapping[str, str | None]
    redriver: Redriver | None = None
    options: Namespace | None = None
    _listed: Sequence[str] = field(default=(), init=False)
    _listed_at: datetime | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def names(self) -> Sequence[str]:
        """Lists the account's applications again only after LISTED_FOR, because that reads each lease table."""
        if self.named:
            return sorted(self.named)
        from sublet.operate.applications import applications

        with self._lock:
            now = self.account.clock.steady()
            if self._listed_at is None or now - self._listed_at >= LISTED_FOR:
                any_of_them = settings_of(Namespace(application="any"), os.environ, required=())
                self._listed = sorted(found.name for found in applications(self.account, any_of_them))
                self._listed_at = now
            return self._listed

    def open(self, name: str) -> OpenApplication | None:
        from sublet.aws.inspection import AwsInspection
        from sublet.cli.looking import with_sightings_if_there
        from sublet.cli.snapshots import snapshot_store
        from sublet.console.applications import OpenApplication
        from sublet.protocol.stream_identity import StreamArn
        from sublet.several_streams import streams_read

        if name not in self.names():
            return None
        known = self.account.stream_of(name)
        named = self.named.get(name) or (None if known is None else StreamArn.parse(known.arn).stream)
        settings, ports = operated(
            _stated(name, named, self.options), required=("application",), finds_streams=True
        )
        ports = with_sightings_if_there(ports)
        several = () if ports.streams is None else tuple(key.stream for key in streams_read(ports))
        inspection = AwsInspection(settings, None if known is None else known.arn)
        aside = set_aside_place(settings, ports, inspection)
        snapshots = snapshot_store(settings)
        return OpenApplication(
            name, named, settings, ports, snapshots, aside, known, inspection, self.redriver,
            partial(verdicts, settings, ports, self.account) if named or several else None, several,
        )  # fmt: skip


def verdicts(settings: Settings, ports: Ports, account: Account) -> Sequence[HotShard]:
    """Returns what `sublet hot` shows of the application's streams, with the shards' full names."""
    from msgspec.structs import replace

    from sublet.operate.hot_shards import look, readable_sketches
    from sublet.several_streams import each_stream

    sketches = readable_sketches(ports)
    return [
        replace(hot, shard_id=stream.full_name(hot.shard_id))
        for stream in each_stream(settings, ports)
        for hot in look(stream.settings, stream.ports, account, sketches)
    ]


def set_aside_place(settings: Settings, ports: Ports, inspection: Inspection) -> SetAsidePlace:
    """Returns the application's failure destination, from SUBLET_ON_FAILURE, or else a folder in the current directory."""
    from sublet.aws.failure_destinations import set_aside_store
    from sublet.cli.skip import destination_of
    from sublet.console.applications import SetAsidePlace
    from sublet.decisions.set_aside_waiting import SetAsideWaiting
    from sublet.system.set_aside_folder import SetAsideFolder

    folder = Path.cwd() / f"{settings.application}-skipped"
    destination, where = destination_of(None if settings.on_failure else folder, settings, ports.destination)
    if isinstance(destination, SetAsideFolder):
        kept = destination
        return SetAsidePlace(where, kept, lambda: SetAsideWaiting(kept.counted().available), kept)
    return SetAsidePlace(where, destination, lambda: inspection.set_aside(where), set_aside_store(where))


COMMAND = Command("console", "a page that shows applications, and moves them", add_arguments, run_console)
