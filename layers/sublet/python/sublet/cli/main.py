"""`sublet`: run a consumer in this process, look at an application's leases, or bring the stream into tables with Spark."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sublet.consumer.defaults import process_defaults
from sublet.errors import SubletError
from sublet.pipeline import command as pipeline
from sublet.protocol.lease import LeaseScan
from sublet.settings import PREFIX, Settings
from sublet.settings.text import setting_text


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 with one sentence on standard error."""
    options = parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except SubletError as problem:
        print(f"sublet: {problem}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    description = "Consume a Kinesis stream with KCL's leases."
    program = argparse.ArgumentParser(prog="python -m sublet", description=description)
    commands = program.add_subparsers(required=True, metavar="command")
    run = commands.add_parser("run", help="consume the stream in this process until SIGTERM or Ctrl-C")
    run.set_defaults(command=lambda options: run_consumer(settings_of(options, os.environ)))
    leases = commands.add_parser("leases", help="show every lease: owner, counter, checkpoint")
    leases.set_defaults(command=lambda options: show_leases(settings_of(options, os.environ)))
    tables = commands.add_parser("pipeline", help="bring the stream into tables with Spark, exactly once")
    tables.set_defaults(command=pipeline.run)
    pipeline.add_arguments(tables)
    for command in (run, leases):
        command.add_argument("--application", help="consumer group; names the lease table")
        command.add_argument("--stream", help="the stream's name")
        command.add_argument(
            "--set",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="any other setting, such as failover_time=10s",
        )
    run.add_argument("--handler", help="module:function")
    return program


def settings_of(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The environment's SUBLET_* variables, then the options on top; a process is continuous and its own worker by default."""
    given = dict(pair.partition("=")[::2] for pair in options.set)
    given |= {
        name: value
        for name in ("application", "stream", "handler")
        if (value := getattr(options, name, None))
    }
    stated = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    stated |= {PREFIX + name.upper(): value for name, value in given.items()}
    application = stated.get(f"{PREFIX}APPLICATION", "")
    defaults = {
        PREFIX + name.upper(): setting_text(value) for name, value in process_defaults(application).items()
    }
    return Settings.from_environment({**defaults, **stated})


def run_consumer(settings: Settings) -> int:
    from sublet.aws.ports import aws_ports, with_stream_arn
    from sublet.handlers.load import load_handler
    from sublet.runtimes.process import ConsumerProcess, stop_at_signals
    from sublet.system.garbage_collection import collect_seldom

    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does, so that a handler beside you is found
    handler, settings = load_handler(settings.handler), with_stream_arn(settings)
    ports = aws_ports(settings, "consumer_process")
    stop = ports.tasks.signal()
    stop_at_signals(stop)
    process = ConsumerProcess(ports, handler, settings, stop)
    collect_seldom()
    process.run()
    return 0


def show_leases(settings: Settings) -> int:
    from sublet.aws import clients
    from sublet.aws.dynamodb import DynamoDbLeaseTable

    print(lease_lines(DynamoDbLeaseTable(clients.dynamodb_client(), settings.lease_table).scan()))
    return 0


def lease_lines(scan: LeaseScan) -> str:
    """A line for each lease, by lease key; malformed rows last, with their problem."""
    lines = [f"{'lease':<28} {'owner':<28} {'counter':>10}  checkpoint"]
    lines += [
        f"{lease.lease_key:<28} {lease.lease_owner or '-':<28} {lease.lease_counter:>10}  {lease.checkpoint}"
        for lease in sorted(scan.leases, key=lambda lease: lease.lease_key)
    ]
    lines += [f"{row.lease_key:<28} MALFORMED: {row.problem}" for row in scan.malformed]
    return "\n".join(lines)
