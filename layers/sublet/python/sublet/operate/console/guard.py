"""Checks every request's Host header, session and, for a change, origin. Sets the headers of every reply."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sublet.operate.console.browser_sessions import SignIn
from sublet.operate.console.hosts import is_ours, name_of, port_of
from sublet.operate.console.trusted_proxy import Refused, TrustedProxy
from sublet.ports import Log

WITHOUT_SESSION = ("/static/", "/open", "/sign-in")
BESIDE_PROXY = ("/open", "/sign-in", "/sign-out")
"""What has no meaning behind a proxy that signs people in and out."""
READS = ("GET", "HEAD")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
    "'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # `no-referrer` would make browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every reply. A page loads nothing from elsewhere, and has no script or style inside it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The ASGI application in front of the console's own. `named`, `is_public`: see `is_ours`. `proxy`: nobody but it
    signs people in.
    """

    app: ASGIApp
    access: SignIn
    named: Collection[str] = ()
    is_public: bool = False
    proxy: TrustedProxy | None = None
    log: Log | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        kept = "no-cache" if scope["path"].startswith("/static/") else "no-store"

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Cache-Control", kept)
                headers.update(HEADERS)
            await send(message)

        request = Request(scope)
        refused = self._refusal(request)
        await (self.app if refused is None else refused)(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not is_ours(host, self.named, is_public=self.is_public):
            return PlainTextResponse(
                "This console does not answer to that name. Open it by its address, or start it with --host-name.\n",
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        if request.method not in READS and not _is_same_origin(request, host):
            return PlainTextResponse("The request comes from another site.\n", HTTPStatus.FORBIDDEN)
        state = request.scope.setdefault("state", {})
        if self.proxy is not None:
            return self._refusal_behind(self.proxy, request, state)
        session = self.access.session(request.cookies.get(cookie_of(request), ""))
        state["session"] = session
        if session is not None or request.url.path.startswith(WITHOUT_SESSION):
            return None
        if request.method in READS and "x-sublet-live" not in request.headers:
            return RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
        return PlainTextResponse("Sign in first.\n", HTTPStatus.UNAUTHORIZED)

    def _refusal_behind(
        self, proxy: TrustedProxy, request: Request, state: MutableMapping[str, object]
    ) -> Response | None:
        """Neither a cookie nor a link nor a token counts: what they let in would have no name."""
        peer = None if request.client is None else request.client.host
        person = proxy.person(peer, request.headers)
        if isinstance(person, Refused):
            if self.log is not None:
                self.log.warning("console request refused", who=peer or "unknown", why=person.why)
            return PlainTextResponse(
                "This console answers only through its proxy, which signs you in.\n", HTTPStatus.FORBIDDEN
            )
        state["person"], state["session"] = person, self.access.session_of(person.name)
        if request.url.path.startswith(BESIDE_PROXY):
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return None


def cookie_of(request: Request) -> str:
    """Returns the cookie's name, which contains the port: a browser sends the cookies of one port to every other port,
    and keeps one of each name.
    """
    return f"sublet_console_{port_of(request.headers.get('host', ''))}"


def _is_same_origin(request: Request, host: str) -> bool:
    """Checks the Origin header, which every browser sends with a form. `posted` checks the form's key too."""
    origin = urlsplit(request.headers.get("origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc == host and name_of(host) is not None
