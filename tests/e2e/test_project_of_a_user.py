"""A user's project: an empty folder, the wheel with its extra `cdk`, a stack of their own with KinesisConsumer.

Nothing of this repository is on its path. The stack is deployed to the embedded AWS and consumes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.local import embedded_aws
from infra.local.deploy import deploy
from tests.e2e.deliveries import wait_until
from tests.exploring import explores
from tests.package.distributions import ROOT, build, environment_with, run

NODE_MODULES = ROOT / "node_modules"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), explores]

APP = """
import platform
from pathlib import Path
from aws_cdk import App, CfnOutput, CliCredentialsStackSynthesizer, Stack
from aws_cdk.aws_kinesis import Stream
from aws_cdk.aws_lambda import Architecture
from sublet_cdk import KinesisConsumer

app = App()
stack = Stack(app, "their-orders", synthesizer=CliCredentialsStackSynthesizer())
stream = Stream.from_stream_arn(stack, "Orders", "arn:aws:kinesis:us-east-1:000000000000:stream/orders")
consumer = KinesisConsumer(
    stack, "Audit",
    application="orders-audit", stream=stream, handler_code="handlers", handler="orders:handle",
    worker_environment={"HANDLED": str(Path("handled").resolve())},
    architecture=Architecture.ARM_64 if platform.machine() in ("arm64", "aarch64") else Architecture.X86_64,
)
CfnOutput(stack, "Manager", value=consumer.manager.function_name)
app.synth()
"""

HANDLER = """
import os
from pathlib import Path
from sublet import Batch

HANDLED = Path(os.environ["HANDLED"])


def handle(batch: Batch) -> None:
    with HANDLED.open("a") as lines:
        lines.writelines(record.data.decode() + "\\n" for record in batch.records)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    wheel = build(tmp_path_factory.mktemp("dist")).wheel
    python = environment_with(wheel, folder / ".venv", "cdk")
    (folder / "app.py").write_text(APP)
    (folder / "handlers").mkdir()
    (folder / "handlers" / "orders.py").write_text(HANDLER)
    (folder / "cdk.json").write_text(json.dumps({"app": f"{python} -P app.py"}))
    return folder


def test_users_project_imports_nothing_of_this_repository(project: Path) -> None:
    say = "import sublet, sublet_cdk, sys; print(sublet.__file__, sublet_cdk.__file__, *sys.path, sep='\\n')"
    said = run([str(project / ".venv/bin/python"), "-c", say], project).split()
    assert all(str(project) in path for path in said[:2])
    assert not [path for path in said if str(Path(__file__).resolve().parents[2]) in path]


def test_synth_command_writes_the_template_without_a_cdk_program(project: Path) -> None:
    (project / "node_modules").symlink_to(NODE_MODULES)  # or npx would fetch the CDK's command line from npm
    own = [
        *("--application", "orders-audit", "--handler-code", "handlers", "--handler", "orders:handle"),
        *("--set", "mode=continuous", "--set", "window=5m", "--", "--quiet"),
    ]
    run([str(project / ".venv/bin/sublet"), "synth", *own], project)
    template = json.loads((project / "cdk.out" / "sublet-orders-audit.template.json").read_text())
    assert {"LeaseTable", "LeaseManager", "StreamName"} <= template["Outputs"].keys()


def test_their_stack_is_deployed_and_consumes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))  # this is the first synth of this machine
    handled = project / "handled"
    with embedded_aws() as aws:
        aws.client("kinesis").create_stream(StreamName="orders", ShardCount=2)
        outputs = deploy(aws, {}, stack="their-orders", folder=project)
        texts = {f"order-{n}" for n in range(50)}
        records = [{"Data": text.encode(), "PartitionKey": text} for text in texts]
        assert aws.client("kinesis").put_records(StreamName="orders", Records=records)["FailedRecordCount"] == 0
        aws.client("lambda").invoke(FunctionName=outputs["Manager"], Payload=b'{"prompt": {"because": "test"}}')
        wait_until(
            lambda: handled.exists() and set(handled.read_text().split()) == texts,
            60,
            lambda: "not all handled",
        )
    assert [path.name.split("-")[0] for path in (project / "cache/sublet/dependencies").iterdir()] == ["layer"]
