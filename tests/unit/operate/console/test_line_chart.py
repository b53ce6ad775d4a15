"""The last hour as a line: gaps are gaps, and axes end in numbers that read well."""

from __future__ import annotations

import pytest
from sublet.operate.console.line_chart import HEIGHT, WIDTH, graph_of, round_up


def seconds(value: float) -> str:
    return f"{value:g}s"


def test_a_line_goes_from_the_first_minute_to_the_last() -> None:
    graph = graph_of([0.0, 5.0, 10.0], seconds)
    assert graph.line == f"M0.0 {HEIGHT:.1f}L{WIDTH / 2:.1f} {HEIGHT / 2:.1f}L{WIDTH:.1f} 0.0"
    assert graph.area == f"{graph.line}V{HEIGHT}H0.0Z"
    assert (graph.top, graph.middle) == ("10s", "5s")
    assert graph.said == "now 10s, at most 10s in this time"


def test_graph_is_empty_without_values() -> None:
    graph = graph_of([None] * 60, seconds)
    assert graph.is_empty
    assert graph.said == "not known yet"


def test_graph_bridges_one_missing_minute_and_not_two() -> None:
    assert graph_of([1.0, None, 1.0], seconds).line.count("M") == 1
    assert graph_of([1.0, None, None, 1.0], seconds).line.count("M") == 2


def test_a_value_of_long_ago_is_not_said_to_be_now() -> None:
    assert graph_of([3.0, None, None], seconds).said == "not known now, at most 3s in this time"


def test_graph_of_zeros_is_a_line_at_the_bottom() -> None:
    assert graph_of([0.0, 0.0], seconds).line == f"M0.0 {HEIGHT:.1f}L{WIDTH:.1f} {HEIGHT:.1f}"


@pytest.mark.parametrize(("value", "top"), [(0, 1), (0.3, 0.3), (7, 8), (11, 15), (2220, 3000), (1e6, 1e6)])
def test_an_axis_ends_in_a_number_that_reads_well(value: float, top: float) -> None:
    assert round_up(value) == pytest.approx(top)
