"""`python -m benchmarks.pairs BEFORE [name ...]`: this checkout beside another one, in interleaved pairs.

BEFORE is the path of a checkout in which `make setup` has run. A run is one round of a benchmark in a process, by the
checkout's own code and in its own .venv, without peers; which of the two comes first alternates. Prints after / before
for each figure: the median over the pairs with its 95% interval. Of seconds less is better, of records a second more.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent.parent
USUAL = ("worker_loop", "replay", "pull", "latency", "cold_start")
ONE_ROUND = ("ROUNDS", "KILLS", "PAIRS", "REPETITIONS")
"""What benchmarks call the number of their rounds."""

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("names", nargs="*", metavar="name", help=f"benchmarks; otherwise {', '.join(USUAL)}")
    parser.add_argument("--pairs", type=int, default=15)
    given = parser.parse_args()
    for name in given.names or USUAL:
        pairs = []
        for number in range(given.pairs):
            turns = (given.before.resolve(), HERE) if number % 2 else (HERE, given.before.resolve())
            taken = {checkout: _measured(checkout, name) for checkout in turns}
            pairs.append((taken[given.before.resolve()], taken[HERE]))
        _report(name, pairs)


def _measured(checkout: Path, name: str) -> Figures:
    paths = [checkout / "layers/sublet/python", checkout / "infra", checkout]
    run = subprocess.run(
        [str(checkout / ".venv/bin/python"), "-P", __file__],
        check=True,
        stdout=subprocess.PIPE,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "MEASURED": name},
    )
    figures: Figures = json.loads(run.stdout.splitlines()[-1])
    return figures


def _report(name: str, pairs: Sequence[tuple[Figures, Figures]]) -> None:
    print(f"{name}: after / before, {len(pairs)} pairs")
    for figure in pairs[0][0]:
        both = [(before[figure], after[figure]) for before, after in pairs if before.get(figure) and figure in after]
        if both:
            ratios = sorted(after / before for before, after in both)
            away, middle = round(0.98 * len(ratios) ** 0.5), len(ratios) // 2
            low, high = ratios[max(0, middle - away)], ratios[min(len(ratios) - 1, middle + away)]
            before, after = (median(each) for each in zip(*both, strict=True))
            print(f"  {figure:<60}{median(ratios):.3f} ({low:.3f} to {high:.3f}); {before:,.4g} -> {after:,.4g}")


def _figures(found: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number in it, by the names that lead there; of a list of numbers the median."""
    match found:
        case bool() | str() | None:
            return
        case int() | float():
            yield name, float(found)
            return
        case Mapping():
            inner = [(str(key), value) for key, value in found.items()]
        case tuple() if hasattr(found, "_fields"):
            inner = list(zip(found._fields, found, strict=True))
        case _ if is_dataclass(found):
            inner = [(each.name, getattr(found, each.name)) for each in fields(found)]
        case [int() | float(), *_]:
            inner = [("median", median(found))]
        case _:
            inner = [(str(number), value) for number, value in enumerate(found)]
    for key, value in inner:
        yield from _figures(value, f"{name} {key}".strip())


def _run_one(name: str) -> None:
    module, peers = importlib.import_module(f"benchmarks.{name}"), importlib.import_module("benchmarks.peers")
    peers.__dict__["PYTHON"] = HERE / "no peers"
    for constant in ONE_ROUND:
        if hasattr(module, constant):
            setattr(module, constant, 1)
    print(json.dumps(dict(_figures(module.measure()))))


if __name__ == "__main__":
    _run_one(os.environ["MEASURED"]) if "MEASURED" in os.environ else main()
