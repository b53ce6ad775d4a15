"""`make mutants`: each small mistake in the rules, against their tests and the simulation. Who notices none is a survivor.

make mutants FILES="refusal shard_end"      all mutants of two files
make mutants SAMPLE=20 SEED=7               twenty of all, for continuous integration
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random, SystemRandom

from tests.mutants.known import known_mutants
from tests.mutants.mutate import Mutant, mutants_of
from tests.mutants.report import enough, written
from tests.mutants.trial import LIBRARY, ROOT, Trials, Verdict
from tests.mutants.warm import WarmTrials, judge_warm

WHERE = ("decisions/*.py", "engine/*.py", "protocol/lease_writes.py")
REPORT = ROOT / ".local" / "mutants.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--files", nargs="*", help="names of files, such as refusal; all by default")
    parser.add_argument("--sample", type=int, help="so many of them")
    parser.add_argument("--seed", type=int, help="of the sample (default: by chance)")
    parser.add_argument("--worlds", type=int, default=30, help="simulated for each mutant")
    parser.add_argument("--both", action="store_true", help="simulate what the tests have noticed too")
    parser.add_argument(
        "--warm", action="store_true", help="in forks of one process: for more than some dozens"
    )
    parser.add_argument("--seconds", type=float, help="stop after about so long")
    parser.add_argument("--report", type=Path, default=REPORT)
    arguments = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    chosen = mutants(arguments.files, arguments.sample, seed)
    print(f"{len(chosen)} mutants, seed {seed}", flush=True)
    until = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    judge = warmed if arguments.warm else judged
    verdicts = judge(chosen, arguments.worlds, arguments.both, until)
    arguments.report.parent.mkdir(exist_ok=True)
    arguments.report.write_text(written(verdicts))
    print(f"the report: {arguments.report}")
    return 0 if enough(verdicts) else 1


def mutants(files: list[str] | None, sample: int | None, seed: int) -> list[Mutant]:
    """Those that somebody could tell, in the files' order, or a sample in the order of chance."""
    known = known_mutants()
    found = [mutant for mutant in all_mutants() if not files or mutant.file.stem in files]
    found = [mutant for mutant in found if mutant.text not in known]
    return found if sample is None else Random(seed).sample(found, min(sample, len(found)))


def all_mutants() -> Iterator[Mutant]:
    for path in sorted(path for pattern in WHERE for path in (LIBRARY / "sublet").glob(pattern)):
        yield from mutants_of(path)


def warmed(chosen: list[Mutant], worlds: int, both: bool, until: float | None) -> list[Verdict]:
    """Those in functions, and then, anew for each, those that are not."""
    verdicts: list[Verdict] = []

    def tell(verdict: Verdict) -> bool:
        verdicts.append(verdict)
        print(f"{verdict.said}: {verdict.mutant.name}", flush=True)
        return until is None or time.monotonic() < until

    trials = WarmTrials(chosen, worlds, both, tell)
    judge_warm(trials)
    return verdicts + judged(trials.skipped, worlds, both, until)


def judged(chosen: list[Mutant], worlds: int, both: bool, until: float | None) -> list[Verdict]:
    """Raises RuntimeError if the tests fail as it is: then nothing could be told."""
    verdicts: list[Verdict] = []
    if not chosen:
        return verdicts
    with Trials(worlds) as trials:
        trials.check(chosen)
        for mutant in chosen:
            if until is not None and time.monotonic() > until:
                break
            verdict = trials.judge(mutant, both=both)
            verdicts.append(verdict)
            print(f"{verdict.said}: {mutant.name}", flush=True)
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
