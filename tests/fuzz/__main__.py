"""`make fuzz`: each target under atheris for a limited time, in a process of its own. Exits with 1 if one found
something.

A finding is left in .local/fuzz/findings/<target>; fix it, and add a test for it to tests/unit. The fuzzer's corpus
stays in .local/fuzz/corpus, and the next run continues from it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["sublet", "tests.fuzz"]):
    from tests.fuzz.targets import TARGETS

FOLDER = Path(__file__).parents[2] / ".local" / "fuzz"
INPUT_BYTES_MAX = 4096
SECONDS_PER_INPUT = 5
MEGABYTES_MAX = 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--run", choices=TARGETS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        _fuzz(arguments.run, arguments.seconds)
        return 0
    failed = [name for name in arguments.targets or TARGETS if not _in_process(name, arguments.seconds)]
    print(f"{len(failed)} targets with findings {failed or ''}")
    return int(bool(failed))


def _in_process(name: str, seconds: int) -> bool:
    """libFuzzer ends its process, with a finding or without."""
    print(f"==> {name}, {seconds} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz", "--run", name, "--seconds", str(seconds)]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    lines = ended.stderr.splitlines()
    print("\n".join(lines[-30:] if ended.returncode else [line for line in lines if "DONE" in line or "Done" in line]))
    return ended.returncode == 0


def _fuzz(name: str, seconds: int) -> None:
    corpus, findings = FOLDER / "corpus" / name, FOLDER / "findings" / name
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={SECONDS_PER_INPUT}",
        f"-rss_limit_mb={MEGABYTES_MAX}",
        f"-artifact_prefix={findings}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus), str(findings)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
