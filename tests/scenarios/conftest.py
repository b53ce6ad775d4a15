"""Each file tests/scenarios/<decision>/<story>.json is one test of test_<decision>.py, through its `story` argument.

`--rewrite` writes the code's decisions into the files instead of comparing them. Review the diff: it is the change of
behaviour.
"""

from pathlib import Path

import pytest

from tests.scenarios.story import Story


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite the scenario files' expectations")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "story" not in metafunc.fixturenames:
        return
    folder = Path(__file__).parent / metafunc.module.__name__.rpartition(".")[2].removeprefix("test_")
    stories = sorted(folder.glob("*.json"))
    assert stories, f"no scenario files in {folder}"
    rewrite = bool(metafunc.config.getoption("--rewrite", default=False))
    metafunc.parametrize("story", [Story(path, rewrite) for path in stories], ids=[path.stem for path in stories])
