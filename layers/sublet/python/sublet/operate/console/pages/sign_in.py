"""Signing in: by the link that the command prints, or with its token."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sublet.operate.console.browser_sessions import LASTS, BrowserSession
from sublet.operate.console.console_parts import Console
from sublet.operate.console.forms import Form
from sublet.operate.console.guard import cookie_of
from sublet.operate.console.rendering import address_of, page


def open_link(console: Console, request: Request) -> Response:
    """Opens a session by a link that works once. It changes nothing else, so a GET may do it."""
    session = console.access.open_link(request.query_params.get("link", ""))
    if session is None:
        return _sign_in_page(console, request, HTTPStatus.UNAUTHORIZED, "This link has been used, or is too old.")
    return _begun(request, session)


def show(console: Console, request: Request) -> Response:
    return _sign_in_page(console, request, HTTPStatus.UNAUTHORIZED, "")


def sign_in(console: Console, request: Request, form: Form) -> Response:
    session = console.access.sign_in(form.get("token", ""))
    if session is None:
        console.log.warning("console sign-in refused", who=address_of(request))
        return _sign_in_page(console, request, HTTPStatus.UNAUTHORIZED, "That is not the token.")
    return _begun(request, session)


def sign_out(console: Console, request: Request, form: Form) -> Response:  # noqa: ARG001 - every form has the same shape
    console.access.end(request.state.session)
    reply = RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
    reply.delete_cookie(cookie_of(request), httponly=True, samesite="strict")
    return reply


def _begun(request: Request, session: BrowserSession) -> Response:
    reply = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    reply.set_cookie(
        cookie_of(request),
        session.key,
        max_age=int(LASTS.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return reply


def _sign_in_page(console: Console, request: Request, status: HTTPStatus, said: str) -> Response:
    return page(request, "sign_in.html", status, said=said, has_token=console.access.has_token, application=None)
