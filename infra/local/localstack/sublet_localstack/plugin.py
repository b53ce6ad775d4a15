"""The entry point by which LocalStack finds the executor, selected with LAMBDA_RUNTIME_EXECUTOR=process."""

from __future__ import annotations

from plux import PluginSpec

from sublet_localstack.executor import ProcessExecutor


class ExecutorPlugin:
    """plux's protocol for a plugin. Its manager calls `load` first; LocalStack calls it again for the class."""

    def should_load(self) -> bool:
        return True

    def load(self, *_: object, **__: object) -> type[ProcessExecutor]:
        return ProcessExecutor


PLUGIN = PluginSpec("localstack.lambda.runtime_executor", "process", ExecutorPlugin)
