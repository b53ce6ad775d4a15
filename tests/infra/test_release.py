"""`make release` refuses what it should, and writes the right files beside the two distributions."""

from __future__ import annotations

from hashlib import sha256

import pytest
import sublet

from infra import release
from infra.sbom import ROOT

CHANGELOG = """# Changelog

## Unreleased (0.3)

* soon

## 0.2.0 (2026-11-23)

### Added

* a thing

## 0.1.0

* the first
"""


@pytest.mark.parametrize(
    ("version", "said"),
    [("0.2.0", "### Added\n\n* a thing\n"), ("0.1.0", "* the first\n"), ("0.3.1", "* soon\n")],
)
def test_the_notes_are_the_versions_part_of_the_changelog(version: str, said: str) -> None:
    assert release.notes(CHANGELOG, version) == said


@pytest.mark.parametrize("version", ["0.4.0", "0.1", "1.0.0"])
def test_a_version_of_which_the_changelog_says_nothing_is_not_released(version: str) -> None:
    with pytest.raises(release.ReleaseError, match=f"no section ## {version}"):
        release.notes(CHANGELOG, version)


def test_todays_version_has_notes() -> None:
    assert release.notes((ROOT / "CHANGELOG.md").read_text(), sublet.__version__)


def test_a_tag_of_another_version_is_refused() -> None:
    release.check_tag("v0.2.0", "0.2.0")
    with pytest.raises(release.ReleaseError, match=r"the tag must be v0\.2\.0"):
        release.check_tag("v0.2.1", "0.2.0")


def test_builds_that_differ_are_refused_by_name() -> None:
    release.check_equal({"a.whl": b"1", "a.tar.gz": b"2"}, {"a.whl": b"1", "a.tar.gz": b"2"})
    with pytest.raises(release.ReleaseError, match=r"differ in a\.whl"):
        release.check_equal({"a.whl": b"1", "a.tar.gz": b"2"}, {"a.whl": b"3", "a.tar.gz": b"2"})
    with pytest.raises(release.ReleaseError, match=r"differ in b\.whl"):
        release.check_equal({"a.whl": b"1"}, {"a.whl": b"1", "b.whl": b"2"})


def test_checksums_are_as_sha256sum_reads_them() -> None:
    assert release.checksums({"b": b"2", "a": b"1"}) == (
        f"{sha256(b'1').hexdigest()}  a\n{sha256(b'2').hexdigest()}  b\n"
    )
