"""The dependencies' cache: the first user creates it, whole; and uv's error if it cannot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sublet_cdk.dependencies import LAYER, build, cache_folder, place
from sublet_cdk.shipped import CHECKOUT, shipped
from sublet_cdk.wheels import PackagesNotInstalled, Platform, install

PLATFORM = Platform("arm64", "3.13", "manylinux2014")


def test_concurrent_builds_make_one_folder_and_leave_nothing_else(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: build(LAYER, "arm64", tmp_path), range(2))
    assert first == second == place(LAYER, "arm64", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    assert (first / "python" / "msgspec").is_dir()


def test_existing_dependencies_are_taken_as_they_are(tmp_path: Path) -> None:
    there = place(LAYER, "x86_64", tmp_path)
    there.mkdir()
    assert build(LAYER, "x86_64", tmp_path) == there
    assert not list(there.iterdir())


def test_checkout_caches_dependencies_within_itself() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/elsewhere"}) == CHECKOUT / "layers" / "dependencies"


def test_uv_s_words_come_in_one_line_with_the_file_and_the_platform(tmp_path: Path) -> None:
    unlocked = tmp_path / "requirements.txt"
    unlocked.write_text("msgspec==0.22.0\n")
    with pytest.raises(PackagesNotInstalled) as problem:
        install(unlocked, PLATFORM, tmp_path / "target", locked=True)
    (line,) = str(problem.value).splitlines()
    assert line.startswith(f"{unlocked} cannot be installed for Python 3.13 on arm64: error: ")
    assert "hash" in line


def test_missing_source_folder_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="lacks functions/nothing"):
        shipped("functions/nothing")
