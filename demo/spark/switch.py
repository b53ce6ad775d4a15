"""Takes the stream from the Lambda fleet and gives it back, as an operator does, with two calls each."""

from __future__ import annotations

from demo.consumer import Consumer


class FleetSwitch:
    """The schedule's rule starts a tick each minute, and a worker that leaves work behind prompts one. So both are
    stopped: the rule is disabled, and the lease manager may not run. Windows in progress end in time, and release
    their leases."""

    def __init__(self, consumer: Consumer) -> None:
        self._manager = consumer.manager
        self._events, self._lambda = consumer.aws.client("events"), consumer.aws.client("lambda")
        (self._rule,) = (
            name for rule in self._events.list_rules()["Rules"] if (name := self._rule_of(rule["Name"])) is not None
        )

    def off(self) -> None:
        self._events.disable_rule(Name=self._rule)
        self._lambda.put_function_concurrency(FunctionName=self._manager, ReservedConcurrentExecutions=0)

    def on(self) -> None:
        self._lambda.delete_function_concurrency(FunctionName=self._manager)
        self._events.enable_rule(Name=self._rule)

    def _rule_of(self, name: str) -> str | None:
        targets = self._events.list_targets_by_rule(Rule=name)["Targets"]
        return name if any(target["Arn"].endswith(f":{self._manager}") for target in targets) else None
