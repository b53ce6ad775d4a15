"""`python -m benchmarks [name ...]`: run all benchmarks, or those named. Exit code 1 if a goal is missed."""

from __future__ import annotations

import argparse
import importlib

import benchmarks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(benchmarks.NAMES)}")
    names = parser.parse_args().names or benchmarks.NAMES
    if unknown := set(names) - set(benchmarks.NAMES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(benchmarks.NAMES)}")
    met = [_run(name) for name in names]
    return 0 if all(met) else 1


def _run(name: str) -> bool:
    module = importlib.import_module(f"benchmarks.{name}")
    met: bool = module.report(module.measure())
    print()
    return met


if __name__ == "__main__":
    raise SystemExit(main())
