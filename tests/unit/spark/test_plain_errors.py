"""PySpark reports a worker's failure by the sentence alone if the error is ours, and in full otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from sublet.errors import DataGap
from sublet.spark.plain_errors import plain_items, plainly


@pytest.fixture(autouse=True)
def spark_s_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


@plainly
def broken() -> None:
    raise KeyError("unplanned")


@plainly
def lost() -> None:
    try:
        broken()
    except KeyError as cause:
        raise DataGap("records are gone") from cause


def rows() -> Iterator[int]:
    yield 1
    lost()


def test_an_error_of_ours_has_no_traceback_and_no_chain() -> None:
    with pytest.raises(DataGap, match="records are gone") as raised:
        lost()
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    assert os.environ["SPARK_HIDE_TRACEBACK"]


def test_an_error_of_ours_in_the_middle_of_a_task_has_no_traceback_either() -> None:
    items = plain_items(rows())
    assert next(items) == 1
    with pytest.raises(DataGap):
        next(items)
    assert os.environ["SPARK_HIDE_TRACEBACK"]


def test_an_unexpected_error_keeps_its_own_text() -> None:
    with pytest.raises(KeyError):
        broken()
    assert not os.environ["SPARK_HIDE_TRACEBACK"]
