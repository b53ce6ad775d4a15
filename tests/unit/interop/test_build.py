"""Other jars than the locked ones are refused, by name."""

from __future__ import annotations

from tests.interop.build import Profile, differences, locked


def test_what_is_as_locked_differs_in_nothing() -> None:
    jars = locked(Profile.KCL_3)
    assert list(differences(jars, dict(jars))) == []
    assert "amazon-kinesis-client-3.5.1.jar" in jars


def test_one_too_few_one_too_many_and_another() -> None:
    assert list(differences({"a.jar": "1", "b.jar": "2"}, {"b.jar": "3", "c.jar": "4"})) == [
        "a.jar is not there",
        "b.jar is another file than the locked one",
        "c.jar is not locked",
    ]
