"""Scripts that complete commands, options and values, asked as the shell asks them."""

from __future__ import annotations

import shutil
import subprocess
from argparse import ArgumentParser
from pathlib import Path

import pytest
from sublet.command_line.command import Command
from sublet.operate.cli.completion import Flag, bash, completed, fish, zsh
from sublet.operate.cli.main import all_commands, main

ALL = completed(all_commands())


def bash_completes(tmp_path: Path, *words: str) -> list[str]:
    """What TAB offers for the last word."""
    script = tmp_path / "sublet.bash"
    script.write_text(bash(ALL))
    asked = " ".join(f"'{word}'" for word in words)
    program = (
        f"source {script}; COMP_WORDS=(sublet {asked}); COMP_CWORD={len(words)}; _sublet; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [str(shutil.which("bash")), "--norc", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pee"], ["peek"]),
        (["peek", "--gr"], ["--grep"]),
        (["status", "--unh"], ["--unhealthy"]),
        (["completion", "fi"], ["fish"]),
        (["no-such", ""], []),
    ],
)
def test_bash_completes_commands_and_options(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    assert bash_completes(tmp_path, *words) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_offers_every_command(tmp_path: Path) -> None:
    assert set(bash_completes(tmp_path, "")) == {command.name for command in all_commands()} | {
        "--help",
        "--version",
    }


def of(*arguments: tuple[str, dict[str, object]]) -> str:
    def add(parser: ArgumentParser) -> None:
        for name, given in arguments:
            parser.add_argument(name, **given)  # type: ignore[arg-type]

    return str(completed([Command("one", "it's [one]: thing", add, lambda _: 0)])["one"].flags[1:])


def test_an_options_values_are_known_if_they_are_listed() -> None:
    assert of(("--mode", {"choices": ["a", "b"], "help": "which: it's. More [text]"})) == str(
        (Flag(("--mode",), "which: it's", True, ("a", "b")),)
    )
    assert of(("--quiet", {"action": "store_true"})) == str((Flag(("--quiet",), "", False),))


@pytest.mark.parametrize("script", [zsh, fish], ids=["zsh", "fish"])
def test_zsh_and_fish_name_every_command_and_option_and_their_quotes_are_closed(script: object) -> None:
    text = script(ALL)  # type: ignore[operator]
    for name, command in ALL.items():
        assert name in text
        for flag in command.flags:
            longest = max(flag.names, key=len)
            assert longest.removeprefix("--") in text
    assert all(line.count("'") % 2 == 0 for line in text.splitlines())


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
@pytest.mark.parametrize(("line", "offered"), [("pee", "peek"), ("peek --gr", "--grep"), ("completion fi", "fish")])
def test_fish_completes_commands_and_options(tmp_path: Path, line: str, offered: str) -> None:
    script = tmp_path / "sublet.fish"
    script.write_text(fish(ALL))
    program = f"source {script}; complete -C 'sublet {line}'"
    done = subprocess.run(
        [str(shutil.which("fish")), "--no-config", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert [answer.split("\t")[0] for answer in done.stdout.splitlines()] == [offered]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_itself_reads_the_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text({"zsh": zsh, "fish": fish}[shell](ALL))
    subprocess.run([str(shutil.which(shell)), "-n", str(script)], timeout=30, check=True)


def test_completion_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == bash(ALL)
