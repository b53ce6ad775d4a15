"""One stack for each application."""

from __future__ import annotations

import re

from sublet_cdk.names import consumer_stack, pipeline_stack


def test_a_stack_has_the_name_of_its_application() -> None:
    assert consumer_stack("orders-audit") == "sublet-orders-audit"
    assert pipeline_stack("orders-lake") == "sublet-pipeline-orders-lake"


def test_names_that_cloudformation_does_not_take_stay_apart() -> None:
    stacks = {consumer_stack(name) for name in ("orders-audit", "orders_audit", "orders.audit")}
    assert len(stacks) == 3
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", stack) for stack in stacks)
