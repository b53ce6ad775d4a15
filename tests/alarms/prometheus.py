"""The machine's own Prometheus, over points that a stand-in has taken: it answers the alarms' queries.

CloudWatch takes the names of Prometheus 3, in UTF-8 and quoted. Debian's is older, so names are escaped by Prometheus'
own scheme for that (`U__`), in the points and in the queries alike.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from sublet_cdk.promql import PromQLAlarm

from tests.doubles.otlp_service import EPOCH, Point

MISSING = "No Prometheus here: the PromQL alarms' queries are not evaluated (apt-get install prometheus)"
STARTS_WITHIN = 30.0
MILLISECOND = timedelta(milliseconds=1)

Labels = tuple[tuple[str, str], ...]


def is_found() -> bool:
    """Where CI is set, a missing one is a failure."""
    return "CI" in os.environ or (shutil.which("prometheus") is not None and shutil.which("promtool") is not None)


def escaped(name: str) -> str:
    """Prometheus' proposal 28: `__` for `_`, and `_HEX_` for other characters."""
    if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
        return name
    return "U__" + "".join(_escaped(each) for each in name)


def _escaped(character: str) -> str:
    if character == "_":
        return "__"
    return character if re.fullmatch(r"[a-zA-Z0-9]", character) else f"_{ord(character):x}_"


QUOTED = re.compile(r'(=~|!~|!=|=)?\s*"((?:[^"\\]|\\.)*)"\s*(?==~|!~|!=|=)?')


def with_escaped_names(query: str) -> str:
    """The query with escaped names: quoted names alone in braces are metrics, others are labels."""

    def name(found: re.Match[str]) -> str:
        operator, text = found[1], found[2]
        if operator:
            return found[0]
        is_label = re.match(r"\s*(=~|!~|!=|=)", query[found.end() :]) or not _in_braces(query[: found.start()])
        return escaped(text) if is_label else f'__name__="{escaped(text)}"'

    return QUOTED.sub(name, query)


def _in_braces(before: str) -> bool:
    return before.count("{") > before.count("}")


@dataclass(frozen=True, slots=True)
class Prometheus:
    origin: str

    def found(self, query: str, begin: datetime, end: datetime) -> Mapping[Labels, Sequence[datetime]]:
        """The series that an instant query returns, each with the minutes at which it does. Names are as escaped."""
        asked = urlencode(
            {"query": with_escaped_names(query), "start": begin.timestamp(), "end": end.timestamp(), "step": 60}
        )
        with urlopen(f"{self.origin}/api/v1/query_range?{asked}", timeout=60) as reply:  # noqa: S310 - our own server
            answer = json.load(reply)
        return {
            tuple(sorted(series["metric"].items())): [
                datetime.fromtimestamp(float(at), UTC) for at, _ in series["values"]
            ]
            for series in answer["data"]["result"]
        }


@contextmanager
def prometheus(points: Iterable[Point]) -> Iterator[Prometheus]:
    """Runs on a free port of loopback until the block ends."""
    program, tool = map(shutil.which, ("prometheus", "promtool"))
    assert program is not None, MISSING
    assert tool is not None, MISSING
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "points.txt").write_text(_open_metrics(points))
        (home / "prometheus.yml").write_text("")
        given = [tool, "tsdb", "create-blocks-from", "openmetrics", "points.txt", "data"]
        subprocess.run(given, cwd=home, check=True, capture_output=True, timeout=300)
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        options = ("--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y")
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, *options, f"--web.listen-address={address}"], cwd=home, stdout=log, stderr=log
            )
            try:
                _await(f"http://{address}/-/ready", process, home / "log")
                yield Prometheus(f"http://{address}")
            finally:
                process.terminate()
                process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = monotonic() + STARTS_WITHIN
    while monotonic() < until and process.poll() is None:
        with suppress(URLError, ConnectionError), urlopen(url, timeout=5):  # noqa: S310 - our own server
            return
        sleep(0.05)
    raise AssertionError(f"Prometheus does not start: {log.read_text()[-2_000:]}")


def _open_metrics(points: Iterable[Point]) -> str:
    """Series by series. Two points of one series at one moment are a millisecond apart: in simulated time these are
    common.
    """
    series: dict[str, dict[int, float]] = defaultdict(dict)
    for point in points:
        labels = ",".join(f"{escaped(name)}={json.dumps(value)}" for name, value in sorted(point.labels.items()))
        at, of = (point.at - EPOCH) // MILLISECOND, series[f"{escaped(point.name)}{{{labels}}}"]
        while at in of:
            at += 1
        of[at] = point.value
    lines = [
        f"{name} {values[at]} {at / 1_000:.3f}" for name, values in sorted(series.items()) for at in sorted(values)
    ]
    return "\n".join([*lines, "# EOF", ""])


def states(
    alarm: PromQLAlarm, server: Prometheus, begin: datetime, minutes: range, late: timedelta
) -> Mapping[Labels, frozenset[int]]:
    """The contributors of an alarm, each with the minutes, counted from `begin`, in which it is in alarm.

    As CloudWatch's "PromQL alarms": it is after it has been returned for the whole pending period, until it has not
    been for the whole recovery period. `late`: how old the newest data is that a query sees.
    """
    minute = timedelta(minutes=1)
    first, last = begin + minutes.start * minute - late, begin + (minutes.stop - 1) * minute - late
    return {
        labels: frozenset(_in_alarm({(at - first) // minute + minutes.start for at in moments}, alarm, minutes))
        for labels, moments in server.found(alarm.query, first, last).items()
    }


def _in_alarm(breaching: set[int], alarm: PromQLAlarm, minutes: range) -> Iterator[int]:
    minute = timedelta(minutes=1)
    since: int | None = None
    gone: int | None = None
    is_on = False
    for now in minutes:
        if now in breaching:
            since, gone = now if since is None else since, None
        else:
            since, gone = None, now if gone is None else gone
        if since is not None and (now - since) * minute >= alarm.pending:
            is_on = True
        elif gone is not None and (now - gone) * minute >= alarm.recovery:
            is_on = False
        if is_on:
            yield now
