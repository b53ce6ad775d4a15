"""`sublet cost`: its output for given numbers."""

from __future__ import annotations

import json

import pytest
from sublet.operate.cli.main import main

GIVEN = ["cost", "--shards", "100", "--records-per-second", "50"]


def test_cost_needs_no_stream_when_shards_and_records_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*GIVEN, "--latency", "5m"]) == 0
    head, titles, first, *rest = capsys.readouterr().out.splitlines()
    assert head == ("100 shards, 50.0 records and 50.0 kB a second; US$ a month, us-east-1, November 2026")
    assert titles.split() == ["late", "by", "runs", "beside", "in", "all"]
    assert first.startswith("Lambda's event source mapping, batches of 5 minutes")
    mine = next(line for line in rest if line.startswith("cheapest of sublet within 300 s: "))
    assert 'tick="rate(4 minutes)", leases_per_worker=10' in mine
    assert main([*GIVEN, "--latency", "5m", "--monitoring", "full"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("most of it is metrics and alarms")


def test_cost_json_has_every_offer_and_the_cheapest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GIVEN, "--json", "--latency", "2s"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["bytes_per_second"] == 50_000
    assert read["cheapest"]["sublet"].startswith("sublet run on Fargate")
    assert {offer["is_sublet"] for offer in read["offers"]} == {True, False}
    assert all(offer["total"] == pytest.approx(offer["runs"] + offer["beside"], abs=0.02) for offer in read["offers"])


def test_cost_says_that_no_offer_has_the_latency(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GIVEN, "--latency", "1ms"]) == 0
    assert capsys.readouterr().out.endswith("there is no way to handle every record within 0.001 s\n")


def test_cost_needs_the_stream_without_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--shards", "3"]) == 2
    assert "give --stream, or --shards and --records-per-second" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ("--shards", "0"),
        ("--shards", "x"),
        ("--shards", "٣"),
        ("--records-per-second", "-1"),
        ("--records-per-second", "nan"),
        ("--records-per-second", "inf"),
        ("--bytes-per-second", "1e400"),
        ("--latency", "soon"),
    ],
)
def test_a_wrong_number_is_refused_by_name(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cost", *wrong])
    assert f"argument {wrong[0]}: '{wrong[1]}' is not" in capsys.readouterr().err
