"""Stacks as CDK makes them, without the built layer and without a handler from the repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk import App
from sublet_cdk.consumer_stack import ConsumerStack

from tests.infra.apps import an_app, code_and_layer

STREAM_ARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"

Build = Callable[..., ConsumerStack]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """`build({"window": "5m"}, alarm_topic=topic)`: a stack from a context, with extra properties."""
    code, layer = code_and_layer(tmp_path_factory.mktemp("consumer"))

    def stack_of(context: Mapping[str, Any] | None = None, app: App | None = None, **overrides: Any) -> ConsumerStack:
        given = {
            "application": "orders-audit",
            "stream_arn": STREAM_ARN,
            "handler_code": str(code),
            "handler": "orders:handle",
        }
        stated = context or {}
        scope = app or an_app()
        for name, value in stated.items():
            if value is not None:
                scope.node.set_context(name, value)
        defaults = {name: value for name, value in given.items() if name not in stated}
        properties = {"dependencies_layer": layer, **overrides}
        return ConsumerStack(scope, "orders", defaults=defaults, overrides=properties)

    return stack_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the tests that check all written templates last."""
    items.sort(key=lambda item: item.path.name == "test_cfn_lint.py")
