"""The documents as a website: each page is in its navigation, each link leads somewhere, and axe-core finds nothing."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from docs.website import HTML, ROOT, Broken, broken_links, publish, sources, stage
from tests.console.chromium import AXE, MISSING, chromium, found

PYTHON = ROOT / ".local/site/bin/python"
LOOKED_AT = ("", "docs/handlers/", "docs/settings/", "docs/constructs/")
WIDTHS = (400, 800, 1400)


def test_navigation_has_each_page_once() -> None:
    configured = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = [str(path.relative_to(ROOT)) for path in sources() if path.suffix == ".md"]
    assert sorted(_pages(configured)) == sorted(pages)


def _pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages(each)


def test_pages_are_copied_as_they_are_with_the_files_that_they_link(tmp_path: Path) -> None:
    stage(tmp_path)
    assert (tmp_path / "docs/handlers.md").read_bytes() == (ROOT / "docs/handlers.md").read_bytes()
    assert (tmp_path / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()
    assert (tmp_path / "examples/container/app.py").is_file()


def test_link_to_a_missing_page_image_or_heading_is_found(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/index.html").write_text('<h2 id="heading">Heading</h2><a href="../">up</a>')
    (tmp_path / "index.html").write_text(
        '<a href="there/#heading">1</a><a href="there/#other">2</a><a href="gone/">3</a><img src="gone.png">'
        '<a href="https://example.com/gone">4</a><a href="#here">5</a>'
    )
    missing = ["there/#other", "gone/", "gone.png", "#here"]
    assert list(broken_links(tmp_path)) == [Broken("index.html", link) for link in missing]


def test_versions_stand_side_by_side_and_the_newest_release_is_shown_first(tmp_path: Path) -> None:
    html, versions = tmp_path / "html", tmp_path / "versions"
    html.mkdir()
    versions.mkdir()
    for version in ("dev", "0.9", "0.10", "0.9"):
        (html / "index.html").write_text(version)
        publish(html, versions, version)
    listed = json.loads((versions / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["0.10", "0.9", "dev"]
    assert [each["aliases"] for each in listed] == [["latest"], [], []]
    assert [(versions / each["version"] / "index.html").read_text() for each in listed] == ["0.10", "0.9", "dev"]
    assert "url=0.10/" in (versions / "index.html").read_text()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site, built strictly: a link that leads nowhere ends the build. Without its environment (`make site`) the
    tests are skipped, and where CI is set, they fail. Test processes side by side build it one after the other, in the
    same folder, and each serves a copy.
    """
    if not PYTHON.exists() and "CI" not in os.environ:
        pytest.skip("The website's environment is not here (make site)")
    html = tmp_path_factory.mktemp("website") / "html"
    with (PYTHON.parent / "building").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        built = subprocess.run([PYTHON, "-m", "docs.website"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
        shutil.copytree(HTML, html)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(html)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.mark.explores
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_website_at_three_widths(origin: str, scheme: Any) -> None:
    """And no page asks another host, or is wider than its window."""
    if found() is None and "CI" not in os.environ:
        pytest.skip(MISSING)
    faults: list[str] = []
    asked: set[str] = set()
    with chromium() as browser:
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("request", lambda request: asked.add(request.url))
            for path in LOOKED_AT:
                page.goto(f"{origin}{path}")
                page.wait_for_timeout(500)
                page.evaluate(AXE.read_text())
                result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
                faults += [
                    f"{path} {width}: {each['id']} {node['target']}"
                    for each in result["violations"]
                    for node in each["nodes"]
                ]
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    faults.append(f"{path} {width}: wider than its window")
            page.close()
    assert faults == []
    assert [url for url in asked if not url.startswith((origin, "data:"))] == []


@pytest.mark.explores
def test_search_of_the_website_finds_a_setting(origin: str) -> None:
    if found() is None and "CI" not in os.environ:
        pytest.skip(MISSING)
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{origin}docs/concepts/", wait_until="networkidle")
        page.get_by_role("button", name="Search").first.click()
        page.keyboard.type("failover_time", delay=20)
        page.get_by_text(re.compile(r"\d+ results")).wait_for()
