"""README and docs/first-run.md: their examples run. README's commands work, and it stays short."""

from __future__ import annotations

import re
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
import sublet
from sublet.testing import consume
from sublet.testing.memory import MemoryStream, memory_ports

from docs.cost_rows import others, whole
from tests.docs.documents import ROOT, blocks

README = ROOT / "README.md"
LINES_MAX = 120
(HANDLER,) = [block.text for block in blocks(README) if block.language == "python"]
STACK, PROCESS, *_ = [block.text for block in blocks(ROOT / "docs/first-run.md") if block.language == "python"]


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("word", ["lease", "tick", "window"])
def test_it_uses_no_word_that_it_would_have_to_explain(word: str) -> None:
    assert not re.search(rf"\b{word}s?\b", README.read_text())


@pytest.mark.parametrize(
    ("name", "explained"),
    [
        ("KCL", "Kinesis Client Library (KCL)"),
        ("KPL", "Producer Library (KPL)"),
        ("fan-out", 'pushes records for an hourly price ("fan-out")'),
    ],
)
def test_a_name_is_explained_where_it_first_stands(name: str, explained: str) -> None:
    prose = " ".join(README.read_text().replace("`fan-out`", "").split())
    assert explained in prose
    assert name not in prose.partition(explained)[0]


def test_readme_costs_are_those_of_the_whole_bill() -> None:
    """Of what `sublet deploy` makes without a choice, and of an event source mapping at the same pace."""
    minute, express, five, public, _, nat = whole(10).values()
    mapping = others(0)["event source mapping: 256 MB for 100 ms each minute"](10)
    said = [float(figure) for figure in re.findall(r"\$([\d.]+)", README.read_text())]
    expected = [
        minute.total,
        minute.runs,
        minute.lean,
        express.total,
        mapping,
        five.total,
        five.runs,
        public.total,
        nat.total,
    ]
    assert said[:9] == pytest.approx(expected, abs=0.6)
    assert said[9] == pytest.approx(minute.full, abs=0.6)
    assert minute.lean < 3


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_two_commands_stand_on_lines_of_their_own(command: str) -> None:
    assert re.search(rf"^    {command} ", README.read_text(), re.MULTILINE)


def run(*parts: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile("\n".join(parts), "README.md", "exec"), names)  # noqa: S102 - our own README
    return names


def test_the_handler_runs(capsys: pytest.CaptureFixture[str]) -> None:
    done = consume(run(HANDLER)["handle"], [b'{"id": 1}', ("customer-7", b'{"id": 2}')], shards=2)
    assert done.retries == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_process_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The example unchanged, but in memory, and stopped at its end."""
    stream = MemoryStream(1)
    stream.put("customer-7", b'{"id": 7}')
    real = sublet.Consumer

    def over_memory(application: str, name: str, handler: Any) -> sublet.Consumer:
        def handle(batch: sublet.Batch) -> None:
            handler(batch)
            threading.Timer(0.1, consumer.stop).start()

        consumer = real(application, name, handle, ports=memory_ports(stream))
        return consumer

    monkeypatch.setattr(sublet, "Consumer", over_memory)
    run(HANDLER, PROCESS)
    assert capsys.readouterr().out.split()[-1] == "7"


@pytest.mark.slow
def test_the_stack_is_synthesized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers/orders.py").write_text(HANDLER)
    monkeypatch.chdir(tmp_path)
    app = run(STACK)["app"]
    assert app.synth().get_stack_by_name("orders").template["Resources"]


def test_readme_installs_the_wheel_and_extras_of_this_release() -> None:
    text = README.read_text()
    stated = re.findall(r"^    pip install (\S+)$", text, re.MULTILINE)
    assert stated == [".", f"dist/sublet-{sublet.__version__}-py3-none-any.whl"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(re.findall(r"`(\w+)` (?:to|for)", text.partition("With extras")[2].partition("\n\n")[0]))
    extras |= set(re.findall(r"`(\w+)` for", text.partition("With extras")[2].partition("\n\n")[0]))
    assert {"cdk", "metrics", "operate", "spark", "testing"} == extras & project["optional-dependencies"].keys()


def test_no_address_is_made_up() -> None:
    """The repository has no public address yet."""
    assert "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "example.com" not in README.read_text()
