"""The bill of materials has each locked package once per version, with the hashes for its installation."""

from __future__ import annotations

import re

from infra.sbom import ROOT, document, python_parts


def test_sbom_names_every_locked_package_with_its_hash() -> None:
    components = document()["components"]
    references = [each["bom-ref"] for each in components]
    assert len(set(references)) == len(references)
    assert all(each["hashes"] for each in components)
    assert all(re.fullmatch(r"[0-9a-f]{40,128}", h["content"]) for each in components for h in each["hashes"])
    for file in (ROOT / "requirements").glob("*.txt"):
        pins = re.findall(r"^[A-Za-z0-9._-]+(?:\[.*\])?==", file.read_text(), re.MULTILINE)
        assert len(python_parts(file.read_text())) == len(pins) > 0, file
    assert any(reference.startswith("pkg:npm/kinesis-local@") for reference in references)


def test_sbom_requires_deployed_packages_and_excludes_build_and_test_tools() -> None:
    scopes = {each["name"]: each["scope"] for each in document()["components"]}
    assert scopes["aws-lambda-powertools"] == "required"
    assert scopes["pytest"] == scopes["ministack"] == scopes["aws-cdk"] == "excluded"


def test_the_same_lock_files_make_the_same_document() -> None:
    assert document() == document()
