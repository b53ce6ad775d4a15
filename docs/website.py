"""The documents as a website. `make site` writes it to .local/website/html.

Nothing is written twice: README, docs/ and the other pages are copied as they are, in their folders, so that their
links among each other hold. `--publish FOLDER --version 0.2` puts the built site into a folder of versions, as GitHub
Pages shows it: a folder for each, `versions.json` for the selector, and a page that leads to the newest.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
PAGES, HTML = ROOT / ".local/website/pages", ROOT / ".local/website/html"

SOURCES = (
    "*.md",
    "docs/*.md",
    "docs/*.svg",
    "docs/*.png",
    "docs/*.css",
    "docs/*.js",
    "examples/README.md",
    "tests/e2e/README.md",
)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
DEVELOPMENT = "dev"
"""The version of what is on main."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if the site is built and each link leads somewhere."""
    parser = argparse.ArgumentParser(prog="python -m docs.website", description="the documents as a website")
    parser.add_argument("--publish", type=Path, metavar="FOLDER", help="put it into this folder of versions")
    parser.add_argument("--version", default=DEVELOPMENT, help="its name there (default: dev)")
    options = parser.parse_args(arguments)
    stage(PAGES)
    if HTML.exists():
        shutil.rmtree(HTML)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - our own command
    if built.returncode:
        return built.returncode
    broken = list(broken_links(HTML))
    for each in broken:
        sys.stderr.write(f"{each.page}: no such place: {each.link}\n")
    if options.publish is not None and not broken:
        publish(HTML, options.publish, options.version)
    return 1 if broken else 0


def stage(pages: Path) -> None:
    """Copies the pages, and the files that they link, into an empty folder."""
    if pages.exists():
        shutil.rmtree(pages)
    for source in sources():
        _copy(source, pages)
        if source.suffix == ".md":
            for linked in _files_linked(source):
                _copy(linked, pages)


def sources() -> list[Path]:
    return sorted(path for pattern in SOURCES for path in ROOT.glob(pattern))


def _files_linked(page: Path) -> Iterator[Path]:
    for link in LINK.findall(page.read_text()):
        path = (page.parent / link).resolve()
        if "://" not in link and path.is_file() and path.suffix != ".md":
            yield path


def _copy(source: Path, pages: Path) -> None:
    target = pages / source.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


class Broken(NamedTuple):
    page: str
    link: str


def broken_links(html: Path) -> Iterator[Broken]:
    """Links and images within the site that lead to no file, or to no id in it."""
    pages = {path: _Page(path) for path in sorted(html.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute, for wherever it is shown
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            found = target.is_file() and (
                not parts.fragment or target not in pages or parts.fragment in pages[target].ids
            )
            if not found:
                yield Broken(str(path.relative_to(html)), link)


class _Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.links += [
            link for name in ("href", "src") if (link := of.get(name)) and tag in ("a", "img", "script", "link")
        ]
        self.ids |= {each for name in ("id", "name") if (each := of.get(name))}


def publish(html: Path, versions: Path, version: str) -> None:
    """Replaces this version in the folder; `latest` among the others is the highest that is not dev."""
    target = versions / version
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(html, target)
    names = [path.name for path in versions.iterdir() if (path / "index.html").is_file() and not path.is_symlink()]
    released = sorted((name for name in names if name != DEVELOPMENT), key=_numbers, reverse=True)
    ordered = [*released, *(name for name in names if name == DEVELOPMENT)]
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if [name] == released[:1] else []} for name in ordered
    ]
    (versions / "versions.json").write_text(json.dumps(listed, indent=2) + "\n")
    (versions / ".nojekyll").touch()
    (versions / "index.html").write_text(REDIRECT.format(version=ordered[0]))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>sublet</title>
<meta http-equiv="refresh" content="0; url={version}/">
<a href="{version}/">sublet {version}</a>
</html>
"""

if __name__ == "__main__":
    sys.exit(main())
