"""`make check` runs the tests that it promises to run."""

from __future__ import annotations

import pytest

from tests.check.__main__ import MANY, ROOT, changed_files, fast_tests, lint, named_tests
from tests.check.touched import that_import


def test_the_constructs_are_checked_as_the_package_that_they_are() -> None:
    *_, others, constructs = lint(["README.md", "infra/app.py", "infra/sublet_cdk/roles.py"])
    assert others.command[-1] == "infra/app.py"
    assert (constructs.command[-1], constructs.folder) == ("sublet_cdk/roles.py", ROOT / "infra")


def test_changed_files_exist() -> None:
    assert all((ROOT / path).exists() for path in changed_files())


def test_a_file_by_name_is_the_only_test() -> None:
    (step,) = named_tests(["tests/unit/engine/manager/test_tick.py"])
    assert step.command[-1] == "tests/unit/engine/manager/test_tick.py"


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ("layers/sublet/python/sublet/decisions/session/failure_policy.py", "tests/property/test_failure_policy.py"),
        ("layers/sublet/python/sublet/settings/value.py", "tests/unit/settings/test_settings.py"),
        ("tests/doubles/engine_world.py", "tests/unit/engine/manager/test_tick.py"),
        ("tests/unit/engine/manager/test_tick.py", "tests/unit/engine/manager/test_tick.py"),
        ("tests/infra/conftest.py", "tests/infra/test_alarms.py"),
        ("infra/sublet_cdk/roles.py", "tests/infra/test_keys.py"),
        ("docs/on-call.md", "tests/docs/test_tables.py"),
        ("requirements/dev.txt", "tests/infra/test_lock_files.py"),
    ],
)
def test_check_selects_the_tests_that_import_a_changed_module(changed: str, asked: str) -> None:
    assert asked in that_import([changed])


def test_check_selects_few_tests_for_a_rule_and_none_for_no_change() -> None:
    assert len(that_import(["layers/sublet/python/sublet/decisions/session/failure_policy.py"])) < MANY
    assert fast_tests(that_import([])) == []
