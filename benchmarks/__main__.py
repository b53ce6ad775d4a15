"""`python -m benchmarks [name ...]`: run all benchmarks, or those named. Exit code 1 if a goal is missed."""

from __future__ import annotations

import argparse
import importlib

import benchmarks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(benchmarks.NAMES)}")
    given = parser.parse_args().names or benchmarks.NAMES
    for name in given:
        if not _named(name):
            parser.error(f"no benchmark {name!r}; there are {', '.join(benchmarks.NAMES)}")
    names = dict.fromkeys(found for name in given for found in _named(name))
    met = [_run(name) for name in names]
    return 0 if all(met) else 1


def _named(name: str) -> list[str]:
    return [found for found in benchmarks.NAMES if found == name or found.startswith(f"{name}_")]


def _run(name: str) -> bool:
    module = importlib.import_module(f"benchmarks.{name}")
    met: bool = module.report(module.measure())
    print()
    return met


if __name__ == "__main__":
    raise SystemExit(main())
