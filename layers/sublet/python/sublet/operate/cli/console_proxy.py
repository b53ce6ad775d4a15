"""The options of `sublet console` behind a proxy that signs people in."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from sublet.errors import SettingsError

if TYPE_CHECKING:
    from sublet.operate.console.trusted_proxy import TrustedProxy

HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
ONLY_WITH = ("trusted_proxy", "proxy_secret_file", "may_move", "groups_header", "may_move_group")
"""The options that mean nothing without --trust-header."""


def add_proxy(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("behind a proxy that signs people in")
    group.add_argument(
        "--trust-header", metavar="HEADER", help="the proxy names the person in this header, such as X-Forwarded-Email"
    )
    group.add_argument(
        "--proxy-secret-file",
        metavar="FILE",
        help="the secret that the proxy has in X-Sublet-Proxy-Secret with each request",
    )
    _repeated(group, "--trusted-proxy", "NETWORK", "where its requests come from (default: this machine)")
    _repeated(group, "--may-move", "NAME", "with --allow-changes: who may change something; all others look")
    group.add_argument(
        "--groups-header", metavar="HEADER", help="the proxy names the person's groups here, with commas between"
    )
    _repeated(group, "--may-move-group", "GROUP", "with --allow-changes: a group whose members may")


def _repeated(group: object, option: str, metavar: str, meaning: str) -> None:
    group.add_argument(  # type: ignore[attr-defined] # argparse's group has no public type
        option, action="append", default=[], metavar=metavar, help=f"{meaning}; may be repeated"
    )


def proxy_of(options: Namespace) -> TrustedProxy | None:
    """Returns None without --trust-header. Raises SettingsError, whose text never contains the secret."""
    if options.trust_header is None:
        for name in ONLY_WITH:
            if getattr(options, name):
                raise SettingsError(name, getattr(options, name), "only allowed with --trust-header")
        return None
    from sublet.operate.console.trusted_proxy import TrustedProxy, networks_of

    if options.token is not None:
        raise SettingsError("token", "…", "not allowed with --trust-header: a person who signs in with it has no name")
    for name in ("trust_header", "groups_header"):
        header = getattr(options, name)
        if header is not None and not HEADER.fullmatch(header):
            raise SettingsError(name, header, "a header's name, such as X-Forwarded-Email")
    try:
        networks = networks_of(options.trusted_proxy)
    except ValueError as wrong:
        raise SettingsError(
            "trusted_proxy", options.trusted_proxy, f"addresses or networks such as 10.0.0.7/32; {wrong}"
        ) from None
    _check_movers(options)
    return TrustedProxy(
        options.trust_header,
        networks,
        _secret_in(options.proxy_secret_file),
        frozenset(options.may_move),
        options.groups_header or "",
        frozenset(options.may_move_group),
    )


def _check_movers(options: Namespace) -> None:
    named = options.may_move or options.may_move_group
    if options.may_move_group and options.groups_header is None:
        raise SettingsError("may_move_group", options.may_move_group, "only allowed with --groups-header")
    if options.allow_changes and not named:
        raise SettingsError(
            "allow_changes", None, "required to name who may: with --trust-header, give --may-move or --may-move-group"
        )
    if named and not options.allow_changes:
        raise SettingsError("may_move", named, "only allowed with --allow-changes: this console is read-only")


def _secret_in(file: str | None) -> str:
    from sublet.operate.console.trusted_proxy import SECRET_LENGTH_MIN

    if file is None:
        raise SettingsError(
            "proxy_secret_file", None, "required with --trust-header: without it, anybody could write the header"
        )
    try:
        secret = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise SettingsError("proxy_secret_file", file, f"a file that can be read: {why}") from None
    if len(secret) < SECRET_LENGTH_MIN or not re.fullmatch(r"[!-~]+", secret):
        raise SettingsError(
            "proxy_secret_file",
            file,
            f"a secret of at least {SECRET_LENGTH_MIN} ASCII characters, such as `openssl rand -hex 20` prints",
        )
    return secret
