"""Files, links, commands, settings, metrics and modules that the documents name exist."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from functools import cache
from pathlib import Path

import pytest
from sublet.metric_names import OF_EXPORTER, OF_PRODUCERS, Metric
from sublet.operate.cli.main import all_commands
from sublet.settings import DEFINITIONS

import benchmarks
from docs.tables import defined_alarms
from tests.docs.documents import (
    CURRENT,
    DOCUMENTS,
    PACKAGE,
    ROOT,
    anchors,
    code_spans,
    commands,
    links,
    name_of,
)

CODE = (
    "layers/sublet",
    "layers/pyspark_sublet",
    "functions",
    "infra",
    "benchmarks",
    "demo",
    "examples",
    "tests",
    "docs",
)


@cache
def words_of_the_code() -> set[str]:
    """Every word in the repository's own programs and data files, and the names of metrics in Prometheus."""
    found = [ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "package.json"]
    for folder in CODE:
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".json", ".toml")]
    derived = {metric.elsewhere.prometheus for metric in Metric if metric.elsewhere}
    derived |= {each.instrument.prometheus for each in (*OF_PRODUCERS.values(), *OF_EXPORTER.values())}
    return derived | {word for path in found for word in re.findall(r"\w+", path.read_text())}


TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
every_current_document = pytest.mark.parametrize("document", CURRENT, ids=name_of)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    lost = []
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


@every_current_document
def test_named_tests_exist(document: Path) -> None:
    """As `tests/unit/decisions/session/test_push.py::test_silence_is_counted`."""
    named = [span.split("::") for span in code_spans(document) if span.startswith("tests/") and "::" in span]
    lost = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]
    assert not lost


@every_current_document
def test_identifiers_occur_in_the_code(document: Path) -> None:
    named = {span for span in code_spans(document) if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", span)}
    assert named - words_of_the_code() == set()


@every_current_document
def test_names_with_dots_occur_in_the_code(document: Path) -> None:
    """Each part of names such as `Tenure.RELEASED`. `Runtime.` is Lambda's."""
    named = {span for span in code_spans(document) if re.fullmatch(r"(?!Runtime)[A-Z]\w*(\.\w+)+", span)}
    lost = {name for name in named if not set(name.split(".")) <= words_of_the_code() and not (ROOT / name).exists()}
    assert not lost


@every_current_document
def test_files_and_modules_are_there(document: Path) -> None:
    named = [span for span in code_spans(document) if re.fullmatch(r"\.?[\w-]+(/[\w.-]+)+/?", span)]
    lost = [path for path in named if not _is_there(path.rstrip("/"), document) and "<" not in path]
    assert not lost


def _is_there(path: str, document: Path) -> bool:
    """In the repository, in the package or beside the document; a module needs no suffix."""
    places = (
        ROOT,
        PACKAGE,
        ROOT / "layers/sublet/python",
        ROOT / "infra/sublet_cdk",
        ROOT / "examples",
        document.parent,
    )
    return any(
        (place / path).exists()
        or (place / f"{path}.py").exists()
        or (place / f"{path.rpartition('.')[0]}.py").exists()  # decisions/window.next_poll_at
        for place in places
    )


@every_current_document
def test_commands_are_understood(document: Path) -> None:
    for command in commands(document):
        words = shlex.split(command) if command.startswith(("make ", "sublet ", "cdk ")) else []
        match words:
            case ["make", *rest]:
                assert {word for word in rest if "=" not in word} <= TARGETS, command
                asked = " ".join(word.removeprefix("BENCH=") for word in rest if word.startswith("BENCH="))
                assert all(any(name.startswith(each) for name in benchmarks.NAMES) for each in asked.split()), command
            case ["sublet", name, *rest]:
                _check_options(name, rest, command)
            case ["cdk", "deploy", *rest]:
                _check_context(rest, command)


def _check_options(name: str, rest: list[str], command: str) -> None:
    """The command exists and has these options."""
    program = ArgumentParser()
    {each.name: each for each in all_commands()}[name].add_arguments(program)
    tasks = {word: task for action in program._actions for word, task in getattr(action, "tasks", {}).items()}
    program = tasks.get(rest[0], program) if rest else program
    known = set(re.findall(r"--[\w-]+", program.format_help()))
    assert {word for word in rest if word.startswith("--")} <= known, command


def _check_context(words: list[str], command: str) -> None:
    """Each `-c name=value` is a setting or a name that the app reads."""
    apps = [*(ROOT / "infra").glob("**/*.py"), *(ROOT / "examples").glob("**/*.py")]
    programs = "".join(path.read_text() for path in apps)
    known = set(re.findall(r'"(\w+)"', programs)) | DEFINITIONS.keys()
    assert {word.partition("=")[0] for word in words if "=" in word} <= known, command


def test_every_metric_and_every_alarm_has_its_row() -> None:
    metrics, alarms = [(ROOT / "docs" / name).read_text() for name in ("metrics.md", "alarms.md")]
    assert [metric for metric in Metric if f"| `{metric}` |" not in metrics] == []
    assert [alarm.name for alarm in defined_alarms() if f"| `{alarm.name}` |" not in alarms] == []


def test_every_document_is_led_to_from_readme() -> None:
    led_to = {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}
    assert {path for path in DOCUMENTS if path.parent == ROOT / "docs" or path.parent == ROOT} - led_to == {
        ROOT / "README.md"
    }


@pytest.mark.parametrize("document", CURRENT, ids=name_of)
def test_documents_cite_only_what_readers_can_open(document: Path) -> None:
    text = document.read_text()
    assert not re.findall(r"(?i)\bthe frame\b|\bthe seed['’]s\b|\(the seed\)", text)
    assert 'pip install "sublet[' not in re.sub(r'pip install "sublet\[\w+(,\w+)*\] @', "", text)


def test_no_message_installs_from_an_index_that_does_not_have_it() -> None:
    """`pip install sublet` would install whatever is published under that name."""
    telling = [
        path
        for folder in ("layers/sublet", "infra")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"""pip install ['"`]*sublet""", path.read_text())
    ]
    assert not telling


HEADING_FIRST = re.compile(r'"([A-Z][^"\n]+)"\s+in\s+(docs/[\w-]+\.md)')
HEADING_LAST = re.compile(r'(docs/[\w-]+\.md),?\s+"([A-Z][^"\n]+)"')


def test_headings_that_are_named_exist() -> None:
    """In code, messages and documents, as `"Closed networks" in docs/permissions.md` or the other way round."""
    folders = ("layers/sublet", "infra/sublet_cdk", "demo", "functions", "examples", "benchmarks")
    files = [*CURRENT, *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    named = set()
    for file in files:
        text = file.read_text()
        named |= {(document, heading) for heading, document in HEADING_FIRST.findall(text)}
        named |= set(HEADING_LAST.findall(text))
    assert len(named) > 2
    assert [each for each in named if not _has_heading(*each)] == []


def _has_heading(document: str, heading: str) -> bool:
    text = (ROOT / document).read_text()
    return re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE) is not None
