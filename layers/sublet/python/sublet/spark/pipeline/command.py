"""The command `sublet pipeline`: its arguments, and how it shows errors."""

from __future__ import annotations

import argparse
import sys
from collections import UserDict
from collections.abc import Callable, Sequence
from typing import Any

from sublet.command_line.command import Command
from sublet.errors import SettingsError, SubletError
from sublet.spark.option_values import duration
from sublet.spark.pipeline import maintain_command, reparse_command
from sublet.spark.pipeline.merge_rule import add_merge, merge_rule
from sublet.spark.pipeline.payload_arguments import add_format
from sublet.spark.pipeline.settings import PipelineSettings, Sink, pairs, pipeline_settings

DESCRIPTION = """\
Write a Kinesis stream into tables, each record exactly once:

  raw        every user record
  parsed     the records that fit --schema, with its columns; each line of jsonl and csv is a row
  rejected   the records that do not fit: the reason, and the original bytes
  merged     with --merge-key: the latest record of each key
  ...        the tables that --transform makes from a micro-batch of `parsed`

Each table keeps how far it holds the stream. Each run continues where the last one ended."""

EXAMPLES = """\
examples:
  sublet pipeline --stream orders --output lake --schema "id BIGINT NOT NULL, price DECIMAL(9,2)" --available-now
  sublet pipeline --stream orders --output s3://lake/orders --sink delta --schema orders.json --every 5m
  sublet pipeline --stream orders --output lake --application orders-audit --leases follow --transform orders:tables
  sublet pipeline maintain --output s3://lake/orders --sink delta
  sublet pipeline --stream orders --output lake --format glue --schema orders.avsc --available-now
  sublet pipeline reparse --output s3://lake/orders --sink delta --schema orders.json"""

_NAMED = {"stream": "stream", "start": "startPosition", "application": "application", "leases": "leases"}
"""The arguments that are also options of the source."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0; 1 if the query failed; 2 if it could not start, with one line on standard error."""
    parser = argparse.ArgumentParser(prog="python -m sublet.spark.pipeline")
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def run(arguments: argparse.Namespace) -> int:
    try:
        try:
            perform: Callable[[argparse.Namespace], int] = arguments.perform
            return perform(arguments)
        except ModuleNotFoundError as missing:
            raise SettingsError(
                "pipeline", missing.name, "is not installed: install sublet with its extra spark"
            ) from None
    except SubletError as problem:
        print(f"sublet: {problem}", file=sys.stderr)
        return 2


def _write_tables(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    from sublet.spark.pipeline.running import run_in_this_process

    return run_in_this_process(settings)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(perform=_write_tables)
    _add_tasks(parser)
    _add_what(parser.add_argument_group("stream and tables"))
    _add_how(parser.add_argument_group("table layout"))
    _add_when(parser.add_argument_group("starting position and trigger"))
    other = parser.add_argument_group("source, metrics and session")
    other.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the source, such as region=eu-west-1 or maxSpanPerTrigger=5m (docs/spark.md lists them)",
    )
    other.add_argument(
        "--metrics",
        action="store_true",
        help="write lag and records to standard output as CloudWatch's embedded metrics, for --application or the "
        "stream's name",
    )
    other.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="configuration property of the Spark session, such as spark.driver.memory=4g",
    )


class _AnyWord(UserDict[str, argparse.ArgumentParser]):
    """The tasks by name, for argparse, which refuses other words before the action sees them."""

    def __contains__(self, word: object) -> bool:
        return True


class _Task(argparse._SubParsersAction):  # type: ignore[type-arg] # noqa: SLF001 - argparse's own has no public name
    """Another task on the same tables. It has arguments of its own, so the pipeline's are not required. Any other word
    is an unrecognized argument, as it would be without tasks.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.tasks = self._name_parser_map
        self.choices: Any = _AnyWord()
        self.choices.data = self.tasks

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values[0] not in self.tasks:
            unrecognized = vars(namespace).setdefault(argparse._UNRECOGNIZED_ARGS_ATTR, [])  # noqa: SLF001
            unrecognized.extend(values)
            return
        for action in parser._actions:  # noqa: SLF001 - argparse has no public list
            action.required = False
        super().__call__(parser, namespace, values, option_string)


def _add_tasks(parser: argparse.ArgumentParser) -> None:
    tasks = parser.add_subparsers(
        title="other tasks on the tables (TASK --help explains each)",
        metavar="TASK",
        action=_Task,
        required=False,
        prog=parser.prog,
    )
    for name, task in (("maintain", maintain_command), ("reparse", reparse_command)):
        subparser = tasks.add_parser(name, help=task.SUMMARY, allow_abbrev=False)
        subparser.set_defaults(perform=task.run, parser=subparser)
        task.add_arguments(subparser)


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--stream",
        metavar="NAME",
        required=True,
        help="the stream's name, or several as in the option stream (docs/spark.md)",
    )
    group.add_argument(
        "--output",
        metavar="PATH",
        required=True,
        help="path of the tables, a folder or URI; for iceberg a catalog's namespace, such as glue.orders",
    )
    group.add_argument(
        "--sink",
        choices=list(Sink),
        default=Sink.PARQUET,
        help="table format (default: parquet); delta needs the package deltalake, iceberg jars in the session",
    )
    group.add_argument(
        "--checkpoint",
        metavar="PATH",
        help="checkpoint location of the streaming query (default: _checkpoint in the output); it belongs to this "
        "output",
    )
    group.add_argument(
        "--schema",
        metavar="DDL|FILE",
        help="schema of the records: DDL, a .json file in Spark's form, or an Avro schema (.avsc); without it there is "
        "only raw",
    )
    add_format(group)
    group.add_argument(
        "--transform",
        metavar="MODULE:FUNCTION",
        help="a function that gets each micro-batch of parsed (of raw without --schema) and returns {table name: "
        "DataFrame}",
    )
    add_merge(group)


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--partition-by",
        metavar="COLUMNS",
        help="partition columns of new tables, where they have them (default: arrivalDate), or none",
    )
    group.add_argument(
        "--target-file-size",
        metavar="SIZE",
        help="largest size of a file, by its records' data (default: 128MB)",
    )


def _add_when(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--application", metavar="NAME", help="the application whose lease table --leases uses")
    group.add_argument("--leases", metavar="HOW", help="how to use its leases (follow: start at their checkpoints)")
    group.add_argument(
        "--start",
        metavar="POSITION",
        help="starting position of the first run: TRIM_HORIZON (default), LATEST or AT_TIMESTAMP:<ISO 8601>",
    )
    when = group.add_mutually_exclusive_group()
    when.add_argument(
        "--available-now", action="store_true", help="trigger: read what is available, then end, for a scheduled run"
    )
    when.add_argument(
        "--every",
        metavar="DURATION",
        default="1m",
        help="trigger: a micro-batch at this interval until SIGTERM or Ctrl-C (default: 1m; each writes a file or "
        "more per table)",
    )


def settings_of(arguments: argparse.Namespace) -> PipelineSettings:
    """The pipeline's settings from the arguments. Raises SettingsError with the argument's or the option's name."""
    named = {option: value for name, option in _NAMED.items() if (value := getattr(arguments, name)) is not None}
    options = pairs("option", arguments.option)
    for name in named:
        if name.lower() in {option.lower() for option in options}:
            raise SettingsError("option", name, "has an argument of its own: give one of the two")
    return pipeline_settings(
        output=arguments.output,
        checkpoint=arguments.checkpoint,
        sink=Sink(arguments.sink),
        schema=arguments.schema,
        transform=arguments.transform,
        every=None if arguments.available_now else duration("every", arguments.every),
        options={**named, **options},
        spark=pairs("conf", arguments.conf),
        partition_by=arguments.partition_by,
        file_size=arguments.target_file_size,
        format=arguments.format,
        strict=arguments.strict,
        metrics_of=(arguments.application or arguments.stream) if arguments.metrics else None,
        merge=merge_rule(arguments.merge_key, arguments.order_by, arguments.delete_when, schema=arguments.schema),
    )


COMMAND = Command("pipeline", "bring a stream into tables with Spark, each record once", add_arguments, run)
