"""`sublet`: its help and version, and one sentence for each error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path

import pytest
import sublet
from botocore.exceptions import ClientError
from sublet.command_line import program
from sublet.command_line.command import Command
from sublet.command_line.problems import unexpected
from sublet.errors import SeekRefused
from sublet.operate.cli.main import all_commands, main

HEAVY = {"boto3", "aws_lambda_powertools", "pyspark", "aws_cdk"}


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 0
    return capsys.readouterr().out


def test_version_option_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert said_by(capsys, "--version") == f"sublet {sublet.__version__}\n"


def test_help_has_a_line_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_by(capsys, "--help")
    width = max(len(command.name) for command in all_commands())
    for command in all_commands():
        assert f"\n  {command.name:<{width}}  {command.summary}\n" in said


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.name)
def test_the_help_of_a_command_describes_it_and_has_an_example(
    capsys: pytest.CaptureFixture[str], command: object
) -> None:
    name = str(getattr(command, "name", command))
    said = said_by(capsys, name, "--help")
    assert f"usage: sublet {name}" in said
    assert "example" in said


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.name)
def test_a_command_that_takes_an_application_takes_a_stream_too(
    capsys: pytest.CaptureFixture[str], command: Command
) -> None:
    """So that the same options fit every command that an operator types in a row."""
    said = said_by(capsys, command.name, "--help")
    if re.search(r"^ +--application\b", said, re.MULTILINE):
        assert re.search(r"^ +--stream\b", said, re.MULTILINE)


def test_run_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from sublet.operate.cli.main import main\n"
        "try: main(['run', '--help'])\n"
        f"finally: assert not {HEAVY!r} & set(sys.modules), sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Raising:
    """What a command does."""

    fault: BaseException

    def run(self, _: object) -> int:
        raise self.fault


def run_raising(fault: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def add_nothing(_: ArgumentParser) -> None: ...

    command = Command("raise", "raise", add_nothing, Raising(fault).run)
    monkeypatch.setattr(program, "_command", lambda _: command)
    return program.main(["raise"], {"": {"raise": ""}})


def test_error_message_escapes_control_characters_of_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal may name an owner as the row has it."""
    assert run_raising(SeekRefused("held by java\x1b[2J\x07\nin two lines"), monkeypatch) == 2
    assert capsys.readouterr().err == "sublet: held by java\\x1b[2J\\x07\nin two lines\n"


def an_aws_error() -> ClientError:
    said = {"Error": {"Code": "BrandNewException", "Message": "tables are\nnot what they were"}}
    return ClientError(said, "Scan")  # type: ignore[arg-type]  # as a service may answer tomorrow


def test_unknown_aws_error_prints_one_line_and_exits_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_raising(an_aws_error(), monkeypatch) == 2
    assert capsys.readouterr().err == (
        "sublet: An error occurred (BrandNewException) when calling the Scan operation: tables are not what they were\n"
    )


def test_a_fault_of_ours_is_one_line_that_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_raising(KeyError("lease"), monkeypatch) == 2
    said = capsys.readouterr().err
    assert said.startswith("sublet: an error of sublet, KeyError: 'lease' (command_line/program.py, line ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "pipeline"])
def test_a_program_s_log_has_the_whole_traceback_too(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert unexpected(ValueError("of the handler"), command).startswith("an error of sublet, ValueError: of the")
    assert capsys.readouterr().err == "ValueError: of the handler\n"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("stauts", "there is no command 'stauts'; did you mean status?"),
        ("tial", "there is no command 'tial'; did you mean tail?"),
        ("snapshit", "did you mean snapshot?"),
        ("frobnicate", "there is no command 'frobnicate'; `sublet --help` lists them"),
    ],
)
def test_an_unknown_command_is_refused_with_a_suggestion(
    given: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main([given, "--application", "orders"])
    assert refused.value.code == 2
    usage, said = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: sublet ")
    assert said.startswith("sublet: error: ")
    assert says in said


@pytest.mark.parametrize(
    ("given", "same"),
    [(["help"], ["--help"]), (["help", "tail"], ["tail", "--help"]), (["help", "tail", "x"], ["tail", "--help"])],
)
def test_help_of_a_command_is_its_help_option(
    given: list[str], same: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for arguments in (given, same):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != ""


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_raising(KeyboardInterrupt(), monkeypatch) == 130
    assert capsys.readouterr().err == "sublet: interrupted\n"


def test_ctrl_c_while_a_command_is_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str) -> Command:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "_command", interrupted)
    assert main(["status"]) == 130
    assert capsys.readouterr().err == "sublet: interrupted\n"


def test_main_prints_its_usage_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main([])
    assert refused.value.code == 2
    assert "usage: sublet" in (said := capsys.readouterr().err)
    assert "sublet: error: name a command; `sublet --help` lists them" in said


def test_settings_error_prints_one_sentence_and_exits_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUBLET_STREAM", raising=False)
    assert main(["run", "--application", "orders"]) == 2
    assert capsys.readouterr().err == ("sublet: setting stream is required; give --stream, or set SUBLET_STREAM\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--helpp"], "sublet: error: unrecognized option --helpp; did you mean --help?"),
        (["run", "--batchsize", "3"], "unrecognized option --batchsize; did you mean --batch-size?"),
        (["run", "--no-create", "--failover-tine=3s"], "--failover-tine; did you mean --failover-time?"),
        (["deploy", "--batchsize", "3"], "did you mean --set batch_size=...?"),
        (["deploy", "--handler-kode", "x"], "did you mean --handler-code?"),
        (["run", "--tumbling-window", "1m"], "error: unrecognized option --tumbling-window\n"),
        (["run", "--maxRecords", "3"], "--maxRecords; did you mean --poll-limit?"),
        (["run", "--max-records=3"], "--max-records; did you mean --poll-limit?"),
        (["run", "--initial-position", "LATEST"], "did you mean --start-position?"),
        (["deploy", "--maximum-batching-window-in-seconds", "3"], "did you mean --set maximum_batching_window=...?"),
        (["run", "--worker-count", "3"], "--worker-count; it is only for Lambda"),
        (["leases", "--worker-id", "3"], "--worker-id; it is only for a process"),
        (["redrive", "now"], "unrecognized arguments: now"),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.startswith(f"usage: sublet {'[-h]' if arguments[0].startswith('-') else arguments[0]}")


def test_a_redrive_without_a_source_is_refused_with_options_that_it_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUBLET_ON_FAILURE", raising=False)
    named = ["redrive", "--application", "orders", "--stream", "events", "--handler", "a:b"]
    assert main(named) == 2
    assert capsys.readouterr().err == (
        "sublet: setting on_failure is required; give --from, or set SUBLET_ON_FAILURE\n"
    )


def test_missing_aws_setup_is_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)
    assert main(["leases", "--application", "orders"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sublet: there is no AWS region; set AWS_DEFAULT_REGION")
    assert said.count("\n") == 1


def test_an_option_is_never_guessed_from_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    """`--exec` would move positions."""
    with pytest.raises(SystemExit):
        main(["seek", "1h", "--application", "orders-audit", "--stream", "orders", "--exec"])
    assert "unrecognized option --exec; did you mean --execute?" in capsys.readouterr().err


def test_a_process_without_standard_streams_has_some_to_ask_about() -> None:
    code = (
        "import sys; from sublet.operate.cli.main import main; main(['completion', 'bash']); sys.stdin.isatty() or "
        "sys.stdout.isatty()"
    )
    closed = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -c "{code}" <&- >&-'],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (closed.returncode, closed.stderr) == (0, "")


COST = ("cost", "--shards", "1", "--records-per-second", "1")


@pytest.mark.parametrize("arguments", [COST, ("cost", "--help")])
def test_a_reader_that_is_gone_is_no_error_though_the_output_is_buffered(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    assert said_to(writing, arguments) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no disk that is always full")
def test_a_full_disk_is_one_sentence_and_not_the_exit_code_of_a_verdict() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    assert said_to(full, COST) == (2, "sublet: the output cannot be written: No space left on device\n")


def said_to(output: int, arguments: tuple[str, ...]) -> tuple[int, str]:
    """The exit code and standard error of a command whose buffered output goes there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-m", "sublet", *arguments],
        check=False,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    os.close(output)
    return done.returncode, done.stderr


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1"])
def test_characters_outside_the_output_encoding_are_escaped(encoding: str) -> None:
    """Records have any characters, and a pipe on Windows is cp1252."""
    program = (
        "from argparse import ArgumentParser; from sublet.operate.cli.main import main\n"
        "from sublet.command_line import program\n"
        "from sublet.command_line.command import Command\n"
        "command = Command('status', '', lambda parser: None, lambda _: print('caf\\u00e9 \\u4f60'))\n"
        "program._command = lambda _: command\n"
        "main(['status'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.decode(encoding).rstrip().endswith("\\u4f60"), done.stderr
