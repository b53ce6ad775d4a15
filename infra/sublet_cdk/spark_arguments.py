"""A run of the pipeline as arguments of `sublet pipeline`, checked at synth by that command's own rules."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Token
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from sublet.errors import SettingsError
from sublet.settings import StartPosition, StreamChoice
from sublet.spark.options import Leases
from sublet.spark.pipeline.command import add_arguments, settings_of
from sublet.spark.pipeline.settings import Sink, in_partitions
from sublet_cdk.consumer_settings import KNOWN_ONLY_AT_DEPLOYMENT

TIMEOUT_MIN = 5
"""Minutes. Starting the workers takes one or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineArguments:
    """The construct's properties of the same names; prefixes are keys in `bucket`, without slashes at either end.

    slots  how many of Spark's tasks may run at once. A run does not see that itself, because it begins without
           executors
    """

    name: str
    stream: kinesis.IStream | None
    streams: str | None
    bucket: s3.IBucket
    output_prefix: str
    checkpoint_prefix: str
    sink: Sink
    namespace: str | None
    schema: str | None
    transform: str | None
    application: str | None
    leases: Leases
    start: StartPosition | None
    options: Mapping[str, str]
    slots: int
    timeout_minutes: int
    merge_key: str | None = None
    order_by: str | None = None
    delete_when: str | None = None
    format: str | None = None

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes below which the runs write."""
        inside = self.checkpoint_prefix.startswith(f"{self.output_prefix}/")
        return (self.output_prefix,) if inside else (self.output_prefix, self.checkpoint_prefix)

    @property
    def choice(self) -> StreamChoice | None:
        """None: it reads one stream."""
        return None if self.streams is None else StreamChoice.parse(self.streams)

    def texts(self, schema: str | None) -> list[str]:
        """`schema`: the DDL, or the file's address. Texts may contain CDK's tokens."""
        return self._texts(*self._named(), schema)

    @property
    def maintain_texts(self) -> list[str]:
        """The arguments of `sublet pipeline maintain`."""
        return ["maintain", *_flags({"output": self._output, "sink": str(self.sink)}.items())]

    @property
    def _output(self) -> str:
        return self.namespace or self.bucket.s3_url_for_object(self.output_prefix)

    def _named(self) -> tuple[str, str | None]:
        """The option `stream`, and the ARN of a single stream."""
        if self.stream is None:
            return str(self.streams), None
        return self.stream.stream_name, self.stream.stream_arn

    @property
    def streams_named(self) -> str:
        """The stream's name, or the texts that choose several."""
        return self._named()[0]

    def check(self) -> None:
        """Raises SettingsError for what the run itself would refuse, and for what only the construct knows."""
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise SettingsError("name", self.name, "1 to 64 of A-Z a-z 0-9 . _ -")
        if (self.stream is None) == (self.streams is None):
            raise SettingsError("streams", self.streams, "given, if `stream` is not, and otherwise left out")
        for setting in ("output_prefix", "checkpoint_prefix"):
            prefix = getattr(self, setting)
            if not re.fullmatch(r"[^/\s*?]+(/[^/\s*?]+)*", prefix):
                raise SettingsError(setting, prefix, "a prefix such as lake/orders, with no slash at either end")
        if (self.sink is Sink.ICEBERG) != (self.namespace is not None):
            raise SettingsError(
                "namespace",
                self.namespace,
                "the catalog's, such as glue.orders: with iceberg, and only there",
            )
        if self.timeout_minutes < TIMEOUT_MIN:
            raise SettingsError("run_timeout", f"{self.timeout_minutes}m", f"at least {TIMEOUT_MIN} minutes")
        self._check_as_the_command_does()

    def _check_as_the_command_does(self) -> None:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        name, arn = self._named()
        is_named = not Token.is_unresolved(name)
        arn = None if Token.is_unresolved(arn) or not is_named else arn
        name = name if is_named else KNOWN_ONLY_AT_DEPLOYMENT
        settings_of(parser.parse_args(self._texts(name, arn, self.schema)))

    def _texts(self, stream_name: str, stream_arn: str | None, schema: str | None) -> list[str]:
        given = {
            "stream": stream_name,
            "output": self._output,
            "checkpoint": self.bucket.s3_url_for_object(self.checkpoint_prefix),
            "sink": str(self.sink),
            "schema": schema,
            "format": self.format,
            "transform": self.transform,
            "merge-key": self.merge_key,
            "order-by": self.order_by,
            "delete-when": self.delete_when,
            "application": self.application,
            "leases": str(self.leases) if self.leases is not Leases.NONE else None,
            "start": str(self.start) if self.start else None,
        }
        options = {**in_partitions(self.options, self.slots), "streamArn": stream_arn}
        return ["--available-now", "--metrics", *_flags(given.items()), *_options(options.items())]


def _flags(given: Iterable[tuple[str, str | None]]) -> Sequence[str]:
    return [text for name, value in given if value is not None for text in (f"--{name}", value)]


def _options(given: Iterable[tuple[str, str | None]]) -> Sequence[str]:
    return [text for name, value in given if value is not None for text in ("--option", f"{name}={value}")]
