"""`sublet console`: a page that this machine serves to itself, for an operator's looks and changes."""

from __future__ import annotations

import logging
import os
import re
import secrets
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING

from sublet.command_line.command import Command, explain
from sublet.command_line.settings_options import add_setting, settings_of
from sublet.command_line.terminal_text import HarmlessLines
from sublet.errors import SettingsError, SubletError
from sublet.operate.cli.console_proxy import add_proxy, proxy_of
from sublet.operate.cli.options.decoding import add_decoding, decoding
from sublet.operate.cli.options.operated import operated
from sublet.settings import DEFINITIONS

if TYPE_CHECKING:
    from sublet.operate.console.applications import ConsoleRedriver, OpenApplication, SetAsidePlace
    from sublet.operate.console.browser_sessions import SignIn
    from sublet.operate.console.console_parts import Console
    from sublet.operate.inspection import Inspection
    from sublet.operate.rules.hot_shards import HotShard
    from sublet.ports import Ports
    from sublet.ports.account import Account
    from sublet.settings import Settings

DESCRIPTION = """\
Open a page that shows applications, Java KCL's too: each shard's state, lag and owner, live, and the records that come
next. It moves positions once you have seen the plan. It runs on this machine with your AWS credentials, until Ctrl-C.

The graph of the last hour comes from an application's metrics if CloudWatch has them (cloudwatch:GetMetricData, once a
minute while its page is open, which costs $0.002 an hour), and otherwise from what the console has seen since it
started.

Without a name it shows every application of the account and region, and reads each of their lease tables every minute.
A table of KCL does not name its stream: give it as APPLICATION=STREAM to see its lag and records.

The page is read-only without --allow-changes. With --handler it can also redrive what the application has set aside,
which calls your handler in this process. It listens on this machine alone, and the printed link lets in one browser,
once; press Enter for another link. With --address, anyone who can reach that address may try to sign in, so it requires
--token; put a proxy with TLS in front of it, or better, use an SSH tunnel to the console on loopback.

For a team, put it behind a proxy that signs people in, such as oauth2-proxy, and name the header with which the proxy
says who they are: --trust-header. A request counts only if it comes from the proxy's address (--trusted-proxy) and has
the secret of --proxy-secret-file. Everybody looks; with --allow-changes, those of --may-move may change something."""

EXAMPLES = """\
examples:
  sublet console
  sublet console orders-audit=orders billing-kcl=orders
  sublet console orders-audit=orders --allow-changes
  sublet console orders-audit=orders --decode glue
  sublet console orders-audit=orders --allow-changes --handler orders:handle
  sublet console --address 0.0.0.0 --token @token.txt --host-name console.example.com
  sublet console --trust-header X-Forwarded-Email --proxy-secret-file token.txt --host-name console.example.com \\
      --allow-changes --may-move ada@example.com"""

LISTED_FOR = timedelta(minutes=5)
PORT = 8470
LOOPBACK = "127.0.0.1"
PORT_MAX = 65535
EXTRA = ("jinja2", "starlette", "uvicorn")


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "applications", nargs="*", metavar="APPLICATION[=STREAM]", help="only these, each with its stream"
    )
    add_decoding(parser, selects=False)
    parser.add_argument("--allow-changes", action="store_true", help="let the page move positions")
    parser.add_argument(
        "--handler",
        metavar="MODULE:FUNCTION",
        help="the handler of the one application that is named; lets the page redrive what was set aside",
    )
    add_setting(parser, DEFINITIONS["handler_contract"])
    parser.add_argument(
        "--port", type=port, default=PORT, metavar="NUMBER", help=f"0 for any free port (default: {PORT})"
    )
    parser.add_argument("--address", default=LOOPBACK, metavar="ADDRESS", help=f"default: {LOOPBACK}")
    parser.add_argument("--token", metavar="TOKEN", help="lets a person sign in; @FILE reads it from a file")
    parser.add_argument(
        "--host-name",
        dest="host_names",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which browsers reach it; may be repeated",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the link")
    add_proxy(parser)


def port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > PORT_MAX:
        raise ArgumentTypeError(f"{text!r} is not a port, 0 to {PORT_MAX}")
    return int(text)


def run_console(options: Namespace) -> int:
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise SubletError(
            f"the console needs {', '.join(missing)}, which is not installed: install sublet with its extra operate"
        )
    from sublet import __version__
    from sublet.aws.account import AwsAccount
    from sublet.operate.cli.options.operated import operator
    from sublet.operate.console.browser_sessions import SignIn
    from sublet.operate.console.console_parts import Console
    from sublet.operate.console.hosts import is_loopback
    from sublet.operate.console.plans import ChangePlans
    from sublet.operate.console.server import listen, serve
    from sublet.operate.console.watching import ApplicationWatcher

    token, proxy = token_of(options.token), proxy_of(options)
    if token is None and proxy is None and not is_loopback(options.address):
        raise SettingsError(
            "address",
            options.address,
            "an address of this machine, such as 127.0.0.1; any other needs --token or --trust-header",
        )
    _log_to_standard_error()
    looking = decoding(options, os.environ)
    account = AwsAccount()
    named_ones = named(options.applications)
    applications = AwsApplications(account, named_ones, redriver_of(options, named_ones), options)
    clock, tasks, log = account.clock, account.tasks, account.log
    console = Console(
        applications,
        SignIn(clock, partial(secrets.token_urlsafe, 18), token),
        ApplicationWatcher(applications, clock, tasks, log),
        ChangePlans(clock, tasks, log, partial(secrets.token_urlsafe, 12)),
        clock,
        log,
        options.allow_changes,
        operator(),
        __version__,
        looking.decode if looking.is_stated else None,
        proxy,
    )
    applications.names()  # so that problems with the account show in the terminal, not on the page
    with_browser = not options.no_browser and sys.stdout.isatty()
    serve(
        console,
        listen(options.address, options.port),
        frozenset(name.lower() for name in options.host_names),
        lambda origin: _say(origin, console, with_browser=with_browser),
    )
    return 0


def redriver_of(options: Namespace, named_ones: Mapping[str, str | None]) -> ConsoleRedriver | None:
    """Loads the handler when the console starts, so that its errors show then. Raises HandlerNotLoadable and
    SettingsError.
    """
    if options.handler is None:
        return None
    if len(named_ones) != 1:
        raise SettingsError(
            "handler", options.handler, "allowed only with one named application, such as orders-audit=orders"
        )
    from sublet.handlers.load import load_handler
    from sublet.operate.console.applications import ConsoleRedriver

    ((application, stream),) = named_ones.items()
    settings = _settings(application, stream, options)
    sys.path.insert(0, str(Path.cwd()))  # like `python -m`: finds a handler in this folder
    return ConsoleRedriver(load_handler(settings.handler, settings))


def _settings(application: str, stream: str | None, options: Namespace | None) -> Settings:
    return settings_of(_stated(application, stream, options), os.environ, required=("application",))


def _stated(application: str, stream: str | None, options: Namespace | None) -> Namespace:
    handler = {} if options is None else {"handler": options.handler}
    contract = {} if options is None else {"handler_contract": options.handler_contract}
    return Namespace(application=application, stream=stream, **handler, **contract)


def token_of(text: str | None) -> str | None:
    """Returns the token. Raises SettingsError, whose text never contains the token."""
    from sublet.operate.console.browser_sessions import TOKEN_LENGTH_MIN

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


def _say(origin: str, console: Console, *, with_browser: bool) -> None:
    access = console.access
    if console.proxy is not None:
        print(f"The console answers the proxy at {origin}\nCtrl-C ends it.", flush=True)
        return
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
    """Logs a line for each change, with its time: who moved what to where."""
    handler = logging.StreamHandler()
    handler.setFormatter(HarmlessLines("%(asctime)s %(message)s"))
    logger = logging.getLogger("sublet")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


@dataclass(slots=True)
class AwsApplications:
    """The Applications port over an account.

    named     streams by application; empty: all applications of the account
    redriver  of the one application that is named; None: no handler was given
    options   the command's options, which name the handler
    """

    account: Account
    named: Mapping[str, str | None]
    redriver: ConsoleRedriver | None = None
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
        from sublet.aws import clients
        from sublet.operate.aws.change_audit import DynamoDbChangeAudit
        from sublet.operate.aws.inspection import AwsInspection
        from sublet.operate.cli.options.looking import with_sightings_if_there
        from sublet.operate.cli.positions.snapshots import SnapshotFiles, snapshot_store
        from sublet.operate.console.applications import OpenApplication
        from sublet.operate.console.change_audit import MemoryChangeAudit
        from sublet.protocol.stream_identity import StreamArn
        from sublet.reading.several_streams import streams_read

        if name not in self.names():
            return None
        known = self.account.stream_of(name)
        named = self.named.get(name) or (None if known is None else StreamArn.parse(known.arn).stream)
        settings, ports = operated(_stated(name, named, self.options), required=("application",), finds_streams=True)
        ports = with_sightings_if_there(ports)
        several = () if ports.streams is None else tuple(key.stream for key in streams_read(ports))
        inspection = AwsInspection(settings, None if known is None else known.arn)
        aside = set_aside_place(settings, ports, inspection)
        snapshots = snapshot_store(settings)
        audit = (
            MemoryChangeAudit()
            if isinstance(snapshots, SnapshotFiles)
            else DynamoDbChangeAudit(clients.dynamodb_client, settings.sightings_table)
        )
        return OpenApplication(
            name,
            named,
            settings,
            ports,
            snapshots,
            aside,
            known,
            inspection,
            self.redriver,
            partial(verdicts, settings, ports, self.account) if named or several else None,
            several,
            audit,
        )


def verdicts(settings: Settings, ports: Ports, account: Account) -> Sequence[HotShard]:
    """Returns what `sublet hot` shows of the application's streams, with the shards' full names."""
    from msgspec.structs import replace

    from sublet.operate.hot_shards import look, readable_sketches
    from sublet.reading.several_streams import each_stream

    sketches = readable_sketches(ports)
    return [
        replace(hot, shard_id=stream.full_name(hot.shard_id))
        for stream in each_stream(settings, ports)
        for hot in look(stream.settings, stream.ports, account, sketches)
    ]


def set_aside_place(settings: Settings, ports: Ports, inspection: Inspection) -> SetAsidePlace:
    """Returns the application's failure destination, from SUBLET_ON_FAILURE, or else a folder in the current
    directory.
    """
    from sublet.aws.set_aside.failure_destinations import set_aside_store
    from sublet.operate.cli.positions.skip import destination_of
    from sublet.operate.console.applications import SetAsidePlace
    from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
    from sublet.operate.set_aside_folder import SetAsideFolder

    folder = Path.cwd() / f"{settings.application}-skipped"
    destination, where = destination_of(None if settings.on_failure else folder, settings, ports.destination)
    if isinstance(destination, SetAsideFolder):
        kept = destination
        return SetAsidePlace(where, kept, lambda: SetAsideWaiting(kept.counted().available), kept)
    return SetAsidePlace(where, destination, lambda: inspection.set_aside(where), set_aside_store(where))


COMMAND = Command("console", "serve a page that shows applications and moves positions", add_arguments, run_console)
