"""`sublet deploy`: the command that it runs with npx, and its errors when something is not installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from sublet.errors import CheckRefused, SettingsError
from sublet.operate.aws import deployed
from sublet.operate.cli.deploy import CDK_VERSION, CannotDeploy, cdk_command, profile_of, region_of, run_cdk
from sublet.operate.cli.main import main, parser
from sublet.operate.rules.deploying import Found, FoundTable, table_keys

TABLES = table_keys("orders-audit").values()
GIVEN = ["deploy", "--application", "orders-audit", "--handler", "orders:handle"]


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    npx = tmp_path / "npx"
    npx.write_text("#!/bin/sh\nexit 3\n")
    npx.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return npx


def test_options_and_settings_are_context_and_the_rest_is_cdks(npx: Path) -> None:
    arguments = [
        *GIVEN,
        "--set",
        "window=5m",
        "--set",
        "handler_environment={}",
        "--",
        "--require-approval",
        "never",
    ]
    command = cdk_command(parser().parse_args(arguments))
    assert command == [
        *(
            str(npx),
            "--yes",
            "--package",
            f"aws-cdk@{CDK_VERSION}",
            "cdk",
            "deploy",
            "--app",
            f"{sys.executable} -m sublet_cdk.app",
        ),
        "--context",
        (
            'sublet={"application": "orders-audit", "handler": "orders:handle", "window": "5m", '
            '"handler_environment": "{}"}'
        ),
        *("--require-approval", "never"),
    ]


def test_address_for_the_alarms_is_context(npx: Path) -> None:
    command = cdk_command(parser().parse_args([*GIVEN, "--alarm-email", "team@example.com"]))
    (context,) = [word for word in command if word.startswith("sublet={")]
    assert json.loads(context.removeprefix("sublet="))["alarm_email"] == "team@example.com"


def test_deploy_exits_with_cdks_code(npx: Path) -> None:
    assert main(GIVEN) == 3


@pytest.mark.parametrize(("stated", "said"), [([], True), (["--set", "monitoring=lean"], False)])
def test_deploy_that_cannot_look_says_how_much_watches_the_stack(
    npx: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stated: list[str], said: bool
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    assert main([*GIVEN, *stated]) == 3
    told = capsys.readouterr().err
    assert "whether tables of orders-audit exist is not known" in told
    assert ("monitoring=full, since what the stack has is not known" in told) is said


def test_deploy_refuses_a_setting_without_a_value(npx: Path) -> None:
    with pytest.raises(SettingsError, match="NAME=VALUE"):
        cdk_command(parser().parse_args([*GIVEN, "--set", "window"]))


def test_deploy_without_node_says_what_to_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotDeploy, match="Node"):
        cdk_command(parser().parse_args(GIVEN))


@pytest.mark.parametrize("words", [["-c", "window=5m"], ["--context", "window=5m"], ["--context=window=5m"]])
def test_context_after_the_dashes_would_be_passed_over_and_is_refused(npx: Path, words: list[str]) -> None:
    with pytest.raises(SettingsError, match="--set window=VALUE"):
        cdk_command(parser().parse_args([*GIVEN, "--", *words]))


def test_deploy_passes_cdks_own_options_to_cdk(npx: Path) -> None:
    words = ["--context", "@aws-cdk/core:bootstrapQualifier=ours"]
    assert cdk_command(parser().parse_args([*GIVEN, "--", *words]))[-2:] == words


def test_the_cdks_command_line_is_the_one_that_the_repository_is_tested_with() -> None:
    tools = json.loads((Path(__file__).resolve().parents[4] / "package.json").read_text())
    assert tools["devDependencies"]["aws-cdk"] == CDK_VERSION


def test_deploy_takes_another_cdk_version(npx: Path) -> None:
    command = cdk_command(parser().parse_args([*GIVEN, "--cdk-version", "2.2000.0"]))
    assert command[command.index("--package") + 1] == "aws-cdk@2.2000.0"


def test_deploy_looks_where_the_cdk_deploys() -> None:
    arn = {"stream_arn": "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"}
    assert region_of(arn, {"AWS_REGION": "us-east-1"}) == "eu-west-1"
    assert region_of({}, {"AWS_REGION": "us-east-1"}) == "us-east-1"
    assert region_of({"streams": "orders,audit"}, {}) is None


@pytest.mark.parametrize("words", [["--profile", "prod"], ["--profile=prod"], ["--quiet", "--profile", "prod"]])
def test_deploy_looks_with_the_cdks_profile(words: list[str]) -> None:
    assert profile_of(words) == "prod"
    assert profile_of(["--quiet", "prod"]) is None


def test_adopted_context_comes_beside_what_is_stated(npx: Path) -> None:
    command = cdk_command(parser().parse_args(GIVEN), {"existing_lease_table": "true"})
    stated = json.loads(command[command.index("--context") + 1].removeprefix("sublet="))
    assert stated == {"application": "orders-audit", "handler": "orders:handle", "existing_lease_table": "true"}


LOOPBACK = "http://127.0.0.1:9"
"""The discard port: nothing answers."""


@pytest.fixture
def recorded(npx: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What npx was called with, a line each call; AWS is on this machine."""
    record = npx.with_name("called")
    npx.write_text(f'#!/bin/sh\necho "$AWS_ENDPOINT_URL $*" >> {record}\n')
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:9")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    return record


@pytest.mark.parametrize("is_bootstrapped", [False, True])
def test_deploy_to_this_machine_bootstraps_once_and_leaves_out_what_emulators_refuse(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_bootstrapped: bool
) -> None:
    monkeypatch.setattr(deployed, "account_of", lambda *_: "000000000000")
    monkeypatch.setattr(deployed, "is_bootstrapped", lambda *_: is_bootstrapped)
    monkeypatch.setattr(
        deployed, "find", lambda *_: Found("eu-west-1", dict.fromkeys(TABLES, FoundTable(exists=False)))
    )
    assert main(GIVEN) == 0
    *before, last = recorded.read_text().splitlines()
    assert [" bootstrap aws://000000000000/eu-west-1 " in line for line in before] == [True] * (not is_bootstrapped)
    assert last.startswith(f"{LOOPBACK} ")
    assert '"cli_credentials": "true"' in last
    assert last.endswith("--require-approval never --context sublet:metric-math-alarms=false")
    assert "AWS is on this machine, at http://localhost:9" in capsys.readouterr().err


def test_deploy_assumes_nothing_of_a_tunnel_to_an_account(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployed, "account_of", lambda *_: "210987654321")
    monkeypatch.setattr(
        deployed, "find", lambda *_: Found("eu-west-1", dict.fromkeys(TABLES, FoundTable(exists=False)))
    )
    assert main(GIVEN) == 0
    (only,) = recorded.read_text().splitlines()
    assert "cli_credentials" not in only
    assert "--require-approval" not in only
    assert "the account 210987654321 at http://localhost:9 may be a real one" in capsys.readouterr().err


def test_deploy_to_this_machine_is_refused_where_nothing_answers(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> str:
        raise CheckRefused("sts:GetCallerIdentity: no reply")

    monkeypatch.setattr(deployed, "account_of", refused)
    with pytest.raises(CannotDeploy, match="at http://localhost:9, and does not answer"):
        run_cdk(parser().parse_args(GIVEN))
    assert not recorded.exists()
