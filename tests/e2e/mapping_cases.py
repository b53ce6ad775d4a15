"""Cases for an event source mapping: what a function does with twenty records, and which of AWS's rules applies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.doubles.esm_model import Esm, EsmAnswer
from tests.e2e.handlers.scripted import answer

RECORDS = 20
REPORTS = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}
BISECTS = {"BisectBatchOnFunctionError": True}
MALFORMED: EsmAnswer = [-1]
"""For the model: it names a record that is not in the batch."""


def retries(count: int) -> dict[str, Any]:
    return {"MaximumRetryAttempts": count}


def reports(*failures: object) -> dict[str, Any]:
    return {"returns": {"batchItemFailures": [*failures]}}


@dataclass(frozen=True)
class Case:
    """mapping  the event source mapping's parameters
    means       how AWS's rules interpret a return value
    lacks       the rule that LocalStack's poller lacks"""

    script: Mapping[str, Any]
    mapping: Mapping[str, Any]
    means: EsmAnswer = None
    lacks: str = ""
    goes_to: str = "sqs"
    batches: Sequence[Sequence[int]] = (tuple(range(RECORDS)),)

    @property
    def gives_up(self) -> bool:
        return "MaximumRetryAttempts" in self.mapping

    def model(self) -> Esm:
        """What happens to each of the batches into which the stream's records are divided."""
        esm = Esm(
            self.mapping.get("MaximumRetryAttempts", -1),
            self.mapping.get("BisectBatchOnFunctionError", False),
            "FunctionResponseTypes" in self.mapping,
        )
        for batch in self.batches:
            esm.run(batch, self._answer)
        return esm

    def _answer(self, batch: Sequence[int], before: int) -> EsmAnswer:
        said: EsmAnswer = self.means if "returns" in self.script else answer(dict(self.script), batch, before)
        return said


ODD = {"FilterCriteria": {"Filters": [{"Pattern": json.dumps({"data": {"odd": [True]}})}]}}
ODD_ONES = tuple(range(1, RECORDS, 2))
CASES = {
    "all_well": Case({}, {}),
    "batches_of_seven": Case({}, {"BatchSize": 7}, batches=(range(7), range(7, 14), range(14, 20))),
    "poison": Case({"raises_with": [7]}, retries(2)),
    "poison_without_a_retry": Case({"raises_with": [7]}, retries(0)),
    "poison_with_reports": Case({"raises_with": [7]}, {**retries(1), **REPORTS}),
    "poison_to_a_topic": Case({"raises_with": [7]}, retries(1), goes_to="sns"),
    "outage": Case({"raises_first": 2}, retries(5)),
    "outage_as_long_as_the_retries": Case({"raises_first": 2}, retries(2)),
    "names_the_first": Case({"names": [0]}, {**retries(2), **REPORTS}),
    "names_two_unsorted": Case({"names_in_turn": [[12, 7]]}, {**retries(2), **REPORTS}),
    "names_one_twice": Case({"names_in_turn": [[7, 7, 9]]}, {**retries(2), **REPORTS}),
    "names_ever_further": Case({"names_in_turn": [[5], [10], [15]]}, {**retries(5), **REPORTS}),
    "names_and_is_not_asked": Case({"names": [7]}, retries(2)),
    "names_nothing": Case(reports(), {**retries(1), **REPORTS}),
    "names_null": Case({"returns": {"batchItemFailures": None}}, {**retries(1), **REPORTS}),
    "returns_an_empty_object": Case({"returns": {}}, {**retries(1), **REPORTS}),
    "returns_another_key": Case({"returns": {"BatchItemFailures": [1]}}, {**retries(1), **REPORTS}),
    "names_an_empty_text": Case(reports({"itemIdentifier": ""}), {**retries(1), **REPORTS}, MALFORMED),
    "names_a_null": Case(reports({"itemIdentifier": None}), {**retries(1), **REPORTS}, MALFORMED),
    "names_by_another_key": Case(reports({"sequenceNumber": "1"}), {**retries(1), **REPORTS}, MALFORMED),
    "names_a_stranger": Case(reports({"itemIdentifier": "123"}), {**retries(1), **REPORTS}, MALFORMED),
    "names_a_number": Case(reports({"itemIdentifier": 123}), {**retries(1), **REPORTS}, MALFORMED),
    "names_by_text": Case(reports("123"), {**retries(1), **REPORTS}, MALFORMED),
    "names_in_no_list": Case({"returns": {"batchItemFailures": "oops"}}, {**retries(1), **REPORTS}, MALFORMED),
    "filtered": Case({}, ODD, batches=(ODD_ONES,)),
    "filtered_and_poisoned": Case({"raises_with": [7]}, {**ODD, **retries(1)}, batches=(ODD_ONES,)),
    "all_again_after_progress": Case(
        {"names": [7]}, {**retries(2), **REPORTS}, lacks="what follows on progress has all its retries again"
    ),
    "bisected": Case({"raises_with": [7]}, {**retries(1), **BISECTS}, lacks="bisecting"),
    "bisected_and_reported": Case(
        {"names": [7]}, {**retries(1), **BISECTS, **REPORTS}, lacks="as all_again_after_progress"
    ),
    "returns_a_text": Case({"returns": "ok"}, {**retries(1), **REPORTS}, lacks="a text says nothing"),
}
