"""`make check` looks at what it says."""

from __future__ import annotations

from pathlib import Path

from tests.check.__main__ import HALVES, ROOT, changed_files, fast_tests, lint, named_tests


def test_every_half_is_there() -> None:
    assert [path for half in HALVES for path in half if not (ROOT / path).is_dir()] == []


def test_what_the_first_half_has_the_second_leaves_out() -> None:
    first, second = fast_tests()
    for path in HALVES[0]:
        assert path in first.command
        assert f"--ignore={path}" in second.command


def test_the_constructs_are_checked_as_the_package_that_they_are() -> None:
    *_, others, constructs = lint(["infra/app.py", "infra/sublet_cdk/roles.py"])
    assert others.command[-1] == "infra/app.py"
    assert (constructs.command[-1], constructs.folder) == ("sublet_cdk/roles.py", ROOT / "infra")


def test_only_python_files_that_are_there_have_types() -> None:
    assert all(Path(ROOT / path).suffix == ".py" and (ROOT / path).exists() for path in changed_files())


def test_a_file_by_name_is_the_only_test() -> None:
    (step,) = named_tests(["tests/unit/engine/test_tick.py"])
    assert step.command[-1] == "tests/unit/engine/test_tick.py"
