"""Measures what imports cost, which every cold Lambda pays: medians of new processes, in turns, in milliseconds of CPU.

`sublet` loads a module on first use of a name; "every name" is the most that a handler's module can load. The entry
point is the lease worker's, with its clients and its handler. It is compared with a program that only imports boto3
and Powertools and makes one client of each service. Last comes the entry point as deployed, in read-only folders:
with the bytecode that the construct adds, and without it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from sublet_cdk.bytecode import LAYERS, add_bytecode, running
from sublet_cdk.dependencies import LAYER, built

import benchmarks
from benchmarks.peers import ROOT

ROUNDS = benchmarks.rounds(21)
GOAL_SUBLET = 30.0
GOAL_ENTRY_POINT = 60.0

SUBLET = "import sublet"
EVERY_NAME = "from sublet import every name"
ALONE = "boto3 and powertools alone"
ENTRY_POINT = "the lease worker's entry point"
COMPILED = "the same as deployed"
SOURCES = "the same without bytecode"

PROGRAMS = {
    SUBLET: "import sublet",
    EVERY_NAME: "from sublet import *",
    ALONE: """\
import boto3
from aws_lambda_powertools import Logger, Metrics
Logger(service="cold"), Metrics(namespace="cold")
boto3.client("kinesis"), boto3.client("dynamodb")""",
    ENTRY_POINT: "import app",
}
TIMED = "import time; began = time.process_time()\n{}\nprint((time.process_time() - began) * 1000)"

HERE = [ROOT / "functions/lease_worker", ROOT / "layers/sublet/python", ROOT / "tests/e2e/handlers"]

Milliseconds = dict[str, float]


def measure() -> Milliseconds:
    with TemporaryDirectory() as scratch:
        programs = {name: (program, HERE) for name, program in PROGRAMS.items()}
        for name, compiled in (COMPILED, True), (SOURCES, False):
            programs[name] = PROGRAMS[ENTRY_POINT], _deployed(Path(scratch) / name, compiled)
        taken: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(ROUNDS + 1):
            for name, (program, paths) in programs.items():
                found = _run(program, paths)
                if number > 0:  # the first round fills the file cache and writes bytecode
                    taken[name].append(found)
        return {name: median(each) for name, each in taken.items()}


def _deployed(target: Path, compiled: bool) -> list[Path]:
    """A function's folders, with or without bytecode."""
    architecture = "arm64" if platform.machine() == "aarch64" else "x86_64"
    for source in (*HERE, built(LAYER, architecture) / "python"):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    if compiled:
        add_bytecode(target, running(), LAYERS)
    return [target]


def report(found: Milliseconds) -> bool:
    """Print the table; True if both goals are met."""
    print(f"cold start: ms of CPU, medians of {ROUNDS} new processes")
    for name, milliseconds in found.items():
        print(f"  {name:<32}{milliseconds:>6.0f}")
    beyond = found[ENTRY_POINT] - found[ALONE]
    met = found[SUBLET] < GOAL_SUBLET, beyond < GOAL_ENTRY_POINT
    print(f"goal: import sublet under {GOAL_SUBLET:g}: {_met(met[0])}")
    print(f"goal: the entry point {beyond:+.0f} on top, at most {GOAL_ENTRY_POINT:g}: {_met(met[1])}")
    return all(met)


def _met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def _run(program: str, paths: Sequence[Path]) -> float:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "AWS_DEFAULT_REGION": "us-east-1",
        "SUBLET_APPLICATION": "benchmark",
        "SUBLET_STREAM": "benchmark",
        "SUBLET_HANDLER": "json:dumps",
        **({} if paths == HERE else {"PYTHONDONTWRITEBYTECODE": "1"}),
    }
    run = subprocess.run(
        [sys.executable, "-c", TIMED.format(program)],
        check=True,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    return float(run.stdout)
