"""Reads forms that a browser sends, and checks by their key that they are ours."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

BYTES_MAX = 64 * 1024
KEY_FIELD = "form_key"

Form = Mapping[str, str]
"""A form's fields: the last value of each, stripped."""

Endpoint = Callable[[Request], Awaitable[Response]]


def posted(act: Callable[[Request, Form], Response], *, needs_session: bool = True) -> Endpoint:
    """Returns an endpoint that reads the form, refuses it if it lacks the session's key, and then calls `act` in a
    thread.
    """

    async def endpoint(request: Request) -> Response:
        form = await _form(request)
        if form is None:
            return PlainTextResponse("The form is too large.\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        session = request.state.session
        if needs_session and not (
            session is not None and hmac.compare_digest(form.get(KEY_FIELD, "").encode(), session.form_key.encode())
        ):
            return PlainTextResponse(
                "The form is not from this session: go back, reload the page, and send it again.\n",
                HTTPStatus.FORBIDDEN,
            )
        return await run_in_threadpool(act, request, form)

    return endpoint


async def _form(request: Request) -> Form | None:
    """Returns None if the form is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BYTES_MAX:
            return None
    read = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {name: values[-1].strip() for name, values in read.items()}
