"""One stack for each application."""

from __future__ import annotations

import re
from itertools import product

from sublet.operate.rules.stack_names import consumer_stack, pipeline_stack

PARTS = ("pipeline-", "orders", "_", ".")


def test_a_stack_has_the_name_of_its_application() -> None:
    assert consumer_stack("orders-audit") == "sublet-orders-audit"
    assert pipeline_stack("orders-lake") == "sublet-pipeline-orders-lake"


def test_names_that_cloudformation_does_not_take_stay_apart() -> None:
    stacks = {consumer_stack(name) for name in ("orders-audit", "orders_audit", "orders.audit")}
    assert len(stacks) == 3
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", stack) for stack in stacks)


def test_no_two_of_anything_have_the_same_stack() -> None:
    names = {"".join(parts) for n in (1, 2, 3) for parts in product(PARTS, repeat=n)}
    stacks = [stack(name) for stack in (consumer_stack, pipeline_stack) for name in names]
    assert len(set(stacks)) == 2 * len(names)


def test_an_application_that_is_named_as_a_pipelines_stack_has_one_of_its_own() -> None:
    assert consumer_stack("pipeline-orders") != pipeline_stack("orders")
