"""The mutator makes exactly the intended mistakes, one at a time, and changes nothing else in the file."""

from __future__ import annotations

import ast
import gc
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.__main__ import all_mutants
from tests.mutants.known import known_mutants
from tests.mutants.mutate import mutants_of
from tests.mutants.record import Record
from tests.mutants.report import enough
from tests.mutants.swap import Swaps, is_in_function
from tests.mutants.touched import Touched
from tests.mutants.trial import Outcome, Trials, Verdict

CASES = {
    "x = a < b": {"x = a >= b", "x = a <= b"},
    "x = a is None": {"x = a is not None"},
    "x = a and b": {"x = a or b", "x = a", "x = b"},
    "if a:\n    b()": {"if not a:\n    b()", "if a:\n    pass"},
    "x = a + timedelta(b)": {"x = a - timedelta(b)"},
    "x = all_of(a, b)": {"x = all_of(b)", "x = all_of(a)"},
    "x = {a: b, **c}": {"x = {**c}", "x = {a: b}"},
    "x = (a, b)": {"x = (b,)", "x = (a,)"},
    "a, b = x": set(),
    "x = 3": {"x = 4"},
    "x = True": {"x = False"},
    "raise a": {"pass"},
    "a += b": {"pass"},
    "def f(a: Literal[1]) -> Literal[2]:\n    '''Doc.'''": set(),
    "assert a < b": set(),
    "if TYPE_CHECKING:\n    from a import b": set(),
    "x: list[int] = field(init=False)": set(),
    "x = Callable[[int, str], bool]": set(),
    "x = dict[a, b]()": set(),
}


@pytest.mark.parametrize("source", CASES)
def test_each_mistake_is_made_by_itself(source: str, tmp_path: Path) -> None:
    file = tmp_path / "rule.py"
    file.write_text(source)
    assert {mutant.source for mutant in mutants_of(file)} == CASES[source]
    assert file.read_text() == source


def test_every_mutant_of_a_rule_is_another_program(tmp_path: Path) -> None:
    file = tmp_path / "rule.py"
    file.write_text("def f(a, b):\n    if a and b < 3:\n        return a - b\n    return 0 if a is None else b\n")
    made = [mutant.source for mutant in mutants_of(file)]
    assert len(set(made)) == len(made) == 11
    assert all(ast.dump(ast.parse(source)) != ast.dump(ast.parse(file.read_text())) for source in made)


def test_each_mutant_that_is_known_is_one_of_today_and_has_its_reason() -> None:
    known = known_mutants()
    assert set(known) <= {mutant.text for mutant in all_mutants()}
    assert all(known.values())


def test_mutant_is_swapped_in_for_a_live_function_only(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rule.py"
    file.write_text(
        "LIMIT = 3\n\n\nclass Rule:\n    def holds(self, a):\n        return any(a < b for b in (LIMIT, 2))\n"
    )
    module: dict[str, Any] = {"__name__": "rule"}
    exec(compile(file.read_text(), str(file), "exec"), module)  # noqa: S102 -- what was just written
    gc.freeze()
    swaps = Swaps.of([file])
    found = {mutant.kind: swaps.of_mutant(mutant) for mutant in mutants_of(file) if mutant.was in ("3", "a < b")}
    assert found["one more"] is None
    assert [is_in_function(each) for each in mutants_of(file) if each.was == "3"] == [False]
    assert module["Rule"]().holds(2)
    swap = found["flipped"]
    assert swap is not None
    swap.make()
    assert not module["Rule"]().holds(1)


def test_a_process_that_has_loaded_the_library_judges_no_mutant_by_its_file() -> None:
    """Its forks would test the library without the mistake, and say that it survives."""
    with pytest.raises(RuntimeError, match="this process has loaded the library"):
        Trials(worlds=0)


def test_a_statement_is_put_to_the_tests_that_run_it(tmp_path: Path) -> None:
    file = tmp_path / "rule.py"
    file.write_text("def holds(a):\n    if a:\n        return (\n            a > 1\n        )\n    return False\n")
    module: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), module)  # noqa: S102 -- what was just written
    touched = Touched(frozenset({str(file)}))
    for test, given in (("yes", 2), ("no", 0)):
        with touched.watching(test):
            module["holds"](given)
    tests = {(each.line, each.kind): set(touched.tests_of(each)) for each in mutants_of(file)}
    assert tests[2, "branches swapped"] == {"yes", "no"}
    assert tests[4, "flipped"] == {"yes"}
    assert tests[6, "turned"] == {"no"}


def test_interrupted_run_is_resumed_while_the_file_is_unchanged(tmp_path: Path) -> None:
    file, record = tmp_path / "rule.py", Record(tmp_path / "record.tsv")
    file.write_text("x = (3, 3)")
    assert record.verdicts(mutants_of(file)) == []
    for mutant in mutants_of(file):
        record.note(Verdict(mutant, Outcome.SURVIVED, Outcome.NOT_ASKED))
    *_, last = mutants_of(file)
    record.note(Verdict(last, Outcome.NOTICED, Outcome.NOT_ASKED))
    assert [verdict.is_noticed for verdict in record.verdicts(mutants_of(file))] == [
        False,
        False,
        False,
        True,
    ]
    changed = tmp_path / "changed.py"
    changed.write_text("x = (3, 3, 3)")
    assert record.verdicts(mutants_of(changed)) == []


@pytest.mark.parametrize(
    ("noticed", "of", "is_enough"),
    [(0, 0, True), (7, 15, True), (6, 15, False), (810, 1000, True), (800, 1000, False)],
)
def test_a_sample_is_refused_for_more_than_bad_luck(noticed: int, of: int, is_enough: bool, tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text("x = 3")
    (mutant,) = mutants_of(tmp_path / "rule.py")
    seen = Verdict(mutant, Outcome.NOTICED, Outcome.NOT_ASKED)
    missed = Verdict(mutant, Outcome.SURVIVED, Outcome.SURVIVED)
    assert enough([seen] * noticed + [missed] * (of - noticed)) is is_enough
