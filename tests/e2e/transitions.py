"""An application that moves between a process, a Lambda stack and a service, with the commands that its owner types, on
the embedded AWS, while records come.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from sublet.operate.rules.deploying import table_keys
from sublet.operate.rules.stack_names import consumer_stack

from infra.local.deploy import CDK, EMULATOR_CONTEXT, INHERITED, bootstrap, destroy
from infra.local.embedded import ROOT, EmbeddedAws
from tests.chaos.repeating import repeating
from tests.e2e.deliveries import Delivery, Recorder, out_of_order, wait_until
from tests.e2e.fleet import HANDLERS, Fleet
from tests.e2e.processes import running

KEYS = [f"key-{n}" for n in range(10)]
PRODUCE_EVERY = 0.5
TICK_EVERY = 5.0
"""Seconds. EventBridge's shortest schedule is a minute."""
WITHIN = 150
"""Seconds for what needs a tick, a cold start and a dead owner's failover_time on a busy machine."""

SETTINGS = {
    "mode": "continuous",
    "failover_time": "9s",
    "heartbeat_interval": "3s",
    "window": "20s",
    "window_margin": "5s",
    "checkpoint_interval": "2s",
    "idle_poll_interval": "200ms",
}
"""Short, so that each step meets the ends of some windows."""
OF_A_PROCESS = ("failover_time", "heartbeat_interval", "checkpoint_interval", "idle_poll_interval")


@dataclass
class Application:
    """One application on one stream, and everything that was put into it. `folder`: its project and its handler's
    records.
    """

    aws: EmbeddedAws
    name: str
    stream: str
    folder: Path
    fleet: Fleet = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "records").mkdir(parents=True)
        (self.folder / "node_modules").symlink_to(ROOT / "node_modules")  # or npx would fetch the CDK's command line
        self.fleet = Fleet(self.aws, self.stream, {"LeaseTable": self.name}, Recorder(self.folder / "records"))

    @property
    def variables(self) -> dict[str, str]:
        return {"RECORDER_DIRECTORY": str(self.folder / "records")}

    @property
    def arn(self) -> str:
        summary = self.fleet.kinesis.describe_stream_summary(StreamName=self.stream)
        return str(summary["StreamDescriptionSummary"]["StreamARN"])

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Records come all the time, and so do ticks, while there is a lease manager."""
        turn = 0

        def produce() -> None:
            nonlocal turn
            turn += 1
            self.fleet.produce(KEYS, aggregated=turn % 4 == 0)

        with repeating(PRODUCE_EVERY, produce), repeating(TICK_EVERY, self._tick):
            yield

    def _tick(self) -> None:
        """A function that is being replaced, or removed, may refuse."""
        if "LeaseManager" in self.fleet.outputs:
            with suppress(AssertionError, BotoCoreError, ClientError, ValueError, KeyError):
                self.fleet.tick()

    @contextmanager
    def process(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """`sublet run` for as long as the block lasts. Its end is a SIGTERM, and must be a clean one."""
        settings = [word for name in OF_A_PROCESS for word in (f"--{name.replace('_', '-')}", SETTINGS[name])]
        given = ["--application", self.name, "--stream", self.stream, "--handler", "recorder:handle", *settings]
        environment = {**self._environment(), **self.variables, "PYTHONPATH": str(HANDLERS)}
        with running(environment, self.folder, "-m", "sublet", "run", *given, *options) as process:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (self.folder / "log").read_text()[-3000:]

    def deploy(self, code: int = 0, **context: str) -> str:
        """`sublet deploy`; what it said."""
        bootstrap(self.aws, report=lambda _: None)
        stated = {
            "handler_environment": json.dumps(self.variables),
            "architecture": "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x86_64",
            "cli_credentials": EMULATOR_CONTEXT["cli_credentials"],
            **SETTINGS,
            **context,
        }
        given = [
            *("--application", self.name, "--stream-arn", self.arn),
            *("--handler-code", str(HANDLERS), "--handler", "recorder:handle"),
            *(word for name, value in stated.items() for word in ("--set", f"{name}={value}")),
        ]
        math = "sublet:metric-math-alarms"
        cdk = ["--require-approval", "never", "--context", f"{math}={EMULATOR_CONTEXT[math]}"]
        done = subprocess.run(
            [sys.executable, "-m", "sublet", "deploy", *given, "--", *cdk],
            cwd=self.folder,
            env={**self._environment(), "CI": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == code, done.stdout[-4000:]
        if code == 0:
            self.fleet.outputs = self._outputs()
        return done.stdout

    def remove(self) -> None:
        """`cdk destroy`."""
        context = {"handler_code": str(HANDLERS), "handler": "recorder:handle", "stream_arn": self.arn}
        self.fleet.outputs = {"LeaseTable": self.name}
        destroy(self.aws, {"application": self.name, **context}, report=lambda _: None)

    @property
    def service_stack(self) -> str:
        return f"{self.name}-service"

    def deploy_service(self) -> dict[str, str]:
        """`cdk deploy` of its service on its tables. Returns the variables of the service's task."""
        bootstrap(self.aws, report=lambda _: None)
        ec2 = self.aws.client("ec2")
        (subnet, *_), (routes, *_) = ec2.describe_subnets()["Subnets"], ec2.describe_route_tables()["RouteTables"]
        service = {
            "application": self.name,
            "stack": self.service_stack,
            "stream_arn": self.arn,
            "handler_code": str(HANDLERS),
            "variables": self.variables,
            "architecture": "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x86_64",
            "vpc": subnet["VpcId"],
            "subnet": subnet["SubnetId"],
            "zone": subnet["AvailabilityZone"],
            "route_table": routes["RouteTableId"],
            "settings": {name: SETTINGS[name] for name in OF_A_PROCESS},
        }
        self._cdk_of_service("deploy", json.dumps(service), "--require-approval", "never")
        (stack,) = self._service_stacks()
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        resources = self.aws.client("cloudformation").describe_stack_resources(StackName=self.service_stack)
        (task,) = (
            each["PhysicalResourceId"]
            for each in resources["StackResources"]
            if each["ResourceType"] == "AWS::ECS::TaskDefinition"
        )
        definition = self.aws.client("ecs").describe_task_definition(taskDefinition=task)["taskDefinition"]
        (consumer,) = (each for each in definition["containerDefinitions"] if each["name"] == "consumer")
        return {each["name"]: each["value"] for each in consumer["environment"]}

    @contextmanager
    def task(self, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """A task of the service: the process that its container runs, with its variables. Paths are this machine's."""
        environment = {**self._environment(), **variables, "PYTHONPATH": str(HANDLERS)}
        with running(environment, self.folder, "-m", "sublet", "run", "--no-create") as process:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (self.folder / "log").read_text()[-3000:]

    def remove_service(self) -> None:
        self.aws.client("cloudformation").delete_stack(StackName=self.service_stack)
        wait_until(lambda: not self._service_stacks(), WITHIN, lambda: f"the stack stays: {self._service_stacks()}")

    def _service_stacks(self) -> list[dict[str, Any]]:
        with suppress(ClientError):  # it does not exist
            found = self.aws.client("cloudformation").describe_stacks(StackName=self.service_stack)["Stacks"]
            return [each for each in found if each["StackStatus"] != "DELETE_COMPLETE"]
        return []

    def _cdk_of_service(self, verb: str, service: str, *options: str) -> None:
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "infra", ROOT / "layers" / "sublet" / "python")))
        app = f"{sys.executable} -m tests.e2e.service_stack"
        done = subprocess.run(
            [str(CDK), verb, self.service_stack, "--app", app, "--output", str(self.folder / "cdk.service"), *options],
            cwd=self.folder,
            env={**self._environment(), "CI": "true", "PYTHONPATH": paths, "SERVICE": service},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]

    def command(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "sublet", name, "--application", self.name, *arguments],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**kept, "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20", **self.aws.environment}

    def _outputs(self) -> dict[str, str]:
        (stack,) = self.aws.client("cloudformation").describe_stacks(StackName=consumer_stack(self.name))["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}

    def status(self) -> str:
        (stack,) = self.aws.client("cloudformation").describe_stacks(StackName=consumer_stack(self.name))["Stacks"]
        return str(stack["StackStatus"])

    def tables(self) -> dict[str, str]:
        """Each table's identity, by its name: another one of the same name has another."""
        found = {}
        for name in table_keys(self.name).values():
            with suppress(self.fleet.dynamodb.exceptions.ResourceNotFoundException):
                found[name] = self.fleet.dynamodb.describe_table(TableName=name)["Table"]["TableId"]
        return found

    def owned(self) -> set[str]:
        """The tables that belong to the stack."""
        resources = self.aws.client("cloudformation").describe_stack_resources(StackName=consumer_stack(self.name))
        tables = [each for each in resources["StackResources"] if each["ResourceType"] == "AWS::DynamoDB::Table"]
        return {each["PhysicalResourceId"] for each in tables}

    def wait_for_handled(self, by: str, *processes: int) -> None:
        """Waits until a record is handled, from now on, by the process, or by the stack, which is none of them."""
        is_stack = by == "stack"

        def count() -> int:
            names = [name for name in self.fleet.recorder.place.names() if name.endswith(".jsonl")]
            theirs = [name for name in names if (int(name.split(".")[0].split("-")[0]) in processes) is not is_stack]
            return sum(self.fleet.recorder.place.read(name).count("\n") for name in theirs)

        before = count()
        wait_until(lambda: count() > before, WITHIN, lambda: f"nothing is handled by the {by}")

    def assert_all_is_handled(self, texts: Sequence[str]) -> list[Delivery]:
        with repeating(TICK_EVERY, self._tick):
            return self.fleet.recorder.wait_for(texts, WITHIN)

    def assert_nothing_is_lost(self) -> None:
        """Each record was handled, in the order of its key."""
        deliveries = self.assert_all_is_handled(self.fleet.put)
        assert out_of_order(deliveries) == []
        again = len(deliveries) - len(self.fleet.put)
        # A handover that starts at the beginning would repeat nearly everything.
        assert again < len(self.fleet.put) / 2, f"{again} of {len(self.fleet.put)} records were handled again"


def application(aws: EmbeddedAws, name: str, folder: Path, stream: str | None = None) -> Application:
    """With a new stream of its name, or on the given one."""
    kinesis: Any = aws.client("kinesis")
    if stream is None:
        kinesis.create_stream(StreamName=name, ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return Application(aws, name, stream or name, folder)
