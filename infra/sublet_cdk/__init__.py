"""sublet on AWS, as CDK constructs for your own app: `from sublet_cdk import KinesisConsumer`. They need the extra
`cdk`.

Each name loads its module, and with it the CDK, on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublet_cdk.alarm_pace import AlarmThresholds
    from sublet_cdk.kinesis_consumer import KinesisConsumer
    from sublet_cdk.kinesis_consumer_service import KinesisConsumerService
    from sublet_cdk.monitoring import ConsumerMonitoring
    from sublet_cdk.spark_alarms import PipelineThresholds
    from sublet_cdk.spark_job import WorkerSize
    from sublet_cdk.spark_pipeline import SparkPipeline

__all__ = [
    "AlarmThresholds",
    "ConsumerMonitoring",
    "KinesisConsumer",
    "KinesisConsumerService",
    "PipelineThresholds",
    "SparkPipeline",
    "WorkerSize",
]

_MODULE_OF = {
    "AlarmThresholds": "sublet_cdk.alarm_pace",
    "ConsumerMonitoring": "sublet_cdk.monitoring",
    "KinesisConsumer": "sublet_cdk.kinesis_consumer",
    "KinesisConsumerService": "sublet_cdk.kinesis_consumer_service",
    "PipelineThresholds": "sublet_cdk.spark_alarms",
    "SparkPipeline": "sublet_cdk.spark_pipeline",
    "WorkerSize": "sublet_cdk.spark_job",
}

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Loads a name on first use (PEP 562)."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = import_module(_MODULE_OF[name])
        except ModuleNotFoundError as missing:
            if missing.name not in {"aws_cdk", "constructs"}:
                raise
            raise ImportError(f"sublet_cdk.{name} needs the AWS CDK: install sublet with its extra cdk") from missing
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__() -> list[str]:
        """Includes names that are not loaded yet, for completion."""
        return __all__
