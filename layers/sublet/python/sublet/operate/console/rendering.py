"""Turns templates into pages. It escapes all values, because anyone may have written a row, a name or a payload."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from sublet.operate.console.forms import KEY_FIELD
from sublet.operate.console.shard_rows import trend_text, why_text
from sublet.operate.console.watching import ApplicationView
from sublet.operate.formatting import age_text, failure_text, shortened, time_text
from sublet.operate.hot_shards import key_text, peak_text, price_text

FOLDER = Path(__file__).parent
LIVE_HEADER = "x-sublet-live"
"""The header that our script sends if it wants only the part of the page that changes."""


UNSEEN = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Controls that a browser does not show. Those of writing direction let a name, or a payload, read as another one."""


def visible(value: object) -> object:
    """Writes the controls in a template's value as escapes, such as `\\u202e`. Finished parts of pages consist of such
    values.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return UNSEEN.sub(lambda found: ascii(found[0])[1:-1], value)


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=visible,
    )
    made.filters["age"] = age_text
    made.filters["time"] = time_text
    made.filters["clock"] = clock_text
    made.filters["bytes"] = bytes_text
    made.filters["position"] = short_position
    made.filters["trend"] = trend_text
    made.filters["why"] = why_text
    made.filters["failure"] = failure_text
    made.filters["name"] = name_text
    made.filters["peak"] = peak_text
    made.filters["key_name"] = key_text
    made.filters["price"] = price_text
    return made


NAME_WIDTH = 34
"""How many characters of a name a table's column has room for. The cell's title has the whole name."""


def name_text(name: str) -> str:
    return shortened(name, NAME_WIDTH)


def clock_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%S}"


def bytes_text(count: float) -> str:
    """Writes a number of bytes with a decimal unit, as Kinesis' limits do."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


SEQUENCE_NUMBER = re.compile(r"\d{25,}(:\d+)?")
"""A sequence number, which `short_position` shortens."""


def short_position(text: str) -> str:
    """Shortens a sequence number to its end, because the numbers of one shard differ only there. Returns other text
    unchanged.
    """
    return f"…{text[-14:]}" if SEQUENCE_NUMBER.fullmatch(text) else text


_ENVIRONMENT = _environment()


def page(request: Request, template: str, code: HTTPStatus = HTTPStatus.OK, /, **context: object) -> HTMLResponse:
    """Renders `<name>.html`, or only `<name>_live.html` if the script asks for the part that changes by itself."""
    session, person = getattr(request.state, "session", None), getattr(request.state, "person", None)
    console, seen = request.app.state.console, context.get("seen")
    known = {
        **context,
        "console": console,
        "stale": seen.stale_age(console.clock.now()) if isinstance(seen, ApplicationView) else None,
        "path": request.url.path,
        "signed_in": session is not None,
        "person": person,
        "may_change": console.allows_changes and (person is None or person.may_move),
        "form_key": "" if session is None else session.form_key,
        "form_key_field": KEY_FIELD,
    }
    name = template
    if LIVE_HEADER in request.headers:
        live = template.replace(".html", "_live.html")
        name = live if (FOLDER / "templates" / live).exists() else template
    return HTMLResponse(_ENVIRONMENT.get_template(name).render(known), code)


def problem(request: Request, status: HTTPStatus, title: str, said: str) -> HTMLResponse:
    return page(request, "problem.html", status, title=title, said=said, application=None)


def address_of(request: Request) -> str:
    """Returns the client's address, for a log line."""
    return "unknown" if request.client is None else request.client.host
