"""`make mutants`: each small mistake in the rules, against their tests and the simulation. A mutant that nothing
notices survives.

make mutants FILES="refusal shard_end"      all mutants of two files
make mutants SAMPLE=20 SEED=7               twenty of all, for continuous integration
make mutants RESUME=1                       those that nothing has noticed yet, or whose file has changed since
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random, SystemRandom

from tests.mutants.known import known_mutants
from tests.mutants.mutate import Mutant, mutants_of
from tests.mutants.record import Record
from tests.mutants.report import enough, written
from tests.mutants.swap import is_in_function
from tests.mutants.trial import LIBRARY, ROOT, Trials, Verdict
from tests.mutants.warm import WarmTrials, judge_warm

WHERE = (
    "decisions/**/*.py",
    "operate/rules/*.py",
    "spark/plan/exact_sketch.py",
    "engine/**/*.py",
    "protocol/lease_writes.py",
)
REPORT = ROOT / ".local" / "mutants.md"
RECORD = ROOT / ".local" / "mutants.tsv"

Tell = Callable[[Verdict], bool]
"""Returns False to stop."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--files", nargs="*", help="names of files, such as refusal; all by default")
    parser.add_argument("--sample", type=int, help="so many of them")
    parser.add_argument("--seed", type=int, help="of the sample (default: by chance)")
    parser.add_argument("--worlds", type=int, default=30, help="simulated for each mutant")
    parser.add_argument("--both", action="store_true", help="simulate what the tests have noticed too")
    parser.add_argument("--warm", action="store_true", help="in forks of one process: for more than some dozens")
    parser.add_argument("--seconds", type=float, help="stop after about so long")
    parser.add_argument("--resume", action="store_true", help="but for what the record says was noticed")
    parser.add_argument("--record", type=Path, default=RECORD, help="each verdict is appended")
    parser.add_argument("--report", type=Path, default=REPORT)
    arguments = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    chosen = mutants(arguments.files, arguments.sample, seed)
    arguments.report.parent.mkdir(exist_ok=True)
    record = Record(arguments.record)
    known = record.verdicts(chosen) if arguments.resume else []
    noticed = {verdict.mutant for verdict in known if verdict.is_noticed}
    asked = [mutant for mutant in chosen if mutant not in noticed]
    print(f"{len(asked)} mutants of {len(chosen)}, seed {seed}", flush=True)
    until = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    verdicts: list[Verdict] = []

    def tell(verdict: Verdict) -> bool:
        verdicts.append(verdict)
        record.note(verdict)
        print(f"{verdict.said}: {verdict.mutant.name}", flush=True)
        return until is None or time.monotonic() < until

    judge = warmed if arguments.warm else judged
    judge(asked, arguments.worlds, arguments.both, tell)
    found = record.verdicts(chosen) if arguments.resume else verdicts
    arguments.report.write_text(written(found))
    print(f"the report: {arguments.report}")
    return 0 if enough(found) else 1


def mutants(files: list[str] | None, sample: int | None, seed: int) -> list[Mutant]:
    """The mutants that could be noticed, in the files' order, or a random sample."""
    known = known_mutants()
    found = [mutant for mutant in all_mutants() if not files or mutant.file.stem in files]
    found = [mutant for mutant in found if mutant.text not in known]
    return found if sample is None else Random(seed).sample(found, min(sample, len(found)))


def all_mutants() -> Iterator[Mutant]:
    for path in sorted(path for pattern in WHERE for path in (LIBRARY / "sublet").glob(pattern)):
        yield from mutants_of(path)


def warmed(chosen: list[Mutant], worlds: int, both: bool, tell: Tell) -> None:
    """First those outside of functions, while this process has not loaded the library, and then the others."""
    swapped = [mutant for mutant in chosen if is_in_function(mutant)]
    judged([mutant for mutant in chosen if not is_in_function(mutant)], worlds, both, tell)
    judge_warm(WarmTrials(swapped, worlds, both, tell))


def judged(chosen: list[Mutant], worlds: int, both: bool, tell: Tell) -> None:
    """Raises RuntimeError if the tests fail without a mutant, because then no verdict is possible."""
    if not chosen:
        return
    with Trials(worlds) as trials:
        trials.check(chosen)
        for mutant in chosen:
            if not tell(trials.judge(mutant, both=both)):
                break


if __name__ == "__main__":
    sys.exit(main())
