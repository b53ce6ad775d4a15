"""`sublet completion`: prints a shell script that completes commands and options, generated from the commands
themselves.

Not by shtab (1.13), which writes scripts for the same shells and more: it would be a fifth dependency of every
installation, and its zsh and fish offer files only after options that are marked with a value of its own, one by one.
"""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sublet.command_line.command import Command, explain

DESCRIPTION = """\
Print a script that completes sublet's commands, options and their values. It is the same for every stream and account:
TAB calls neither Python nor AWS. Print it again after an update.

  bash   sublet completion bash > ~/.local/share/bash-completion/completions/sublet
  zsh    sublet completion zsh > "${fpath[1]}/_sublet"
  fish   sublet completion fish > ~/.config/fish/completions/sublet.fish"""

EXAMPLES = """\
examples:
  sublet completion bash
  sublet completion zsh
  sublet completion fish"""


class Flag(NamedTuple):
    """An option. `takes_value`: whether it takes a value; `values`: the values that it accepts, if they are listed."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...] = ()


class Completed(NamedTuple):
    """What a shell can complete of a command."""

    summary: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]
    """The values that its argument accepts, if they are listed."""


def add_arguments(parser: ArgumentParser) -> None:
    explain(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="the shell")


def complete(options: Namespace) -> int:
    from sublet.operate.cli.main import all_commands

    print(SCRIPTS[options.shell](completed(all_commands())), end="")
    return 0


def completed(commands: Iterable[Command]) -> Mapping[str, Completed]:
    """Returns what can be completed of each command, by its name."""
    return {command.name: _completed(command) for command in commands}


def _completed(command: Command) -> Completed:
    parser = ArgumentParser(prog=command.name)
    command.add_arguments(parser)
    actions = parser._actions  # noqa: SLF001 - argparse has no public list
    flags = tuple(_flag(action) for action in actions if action.option_strings)
    words = [str(word) for action in actions if not action.option_strings for word in action.choices or ()]
    return Completed(command.summary, flags, tuple(words))


def _flag(action: Action) -> Flag:
    return Flag(
        tuple(action.option_strings),
        _first_sentence(action.help or ""),
        action.nargs != 0,
        tuple(str(value) for value in action.choices or ()),
    )


def _first_sentence(text: str) -> str:
    sentence = text.replace("%%", "%").partition(". ")[0].partition(" [")[0]
    return " ".join(sentence.split())


def bash(commands: Mapping[str, Completed]) -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join((*_names(command.flags), *command.words))}"; '
        f'values="{_values_case(command.flags)}" ;;'
        for name, command in commands.items()
    )
    return f"""\
# bash completion of sublet
_sublet() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words values pair
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
    *) return ;;
  esac
  for pair in $values; do
    if [ "${{pair%%=*}}" = "$before" ]; then
      pair="${{pair#*=}}"
      COMPREPLY=($(compgen -W "${{pair//,/ }}" -- "$word"))
      return
    fi
  done
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _sublet sublet
"""


def zsh(commands: Mapping[str, Completed]) -> str:
    listed = "\n".join(f"    '{name}:{_quoted(command.summary)}'" for name, command in commands.items())
    cases = "\n".join(f"    {name})\n{_zsh_arguments(command)}\n      ;;" for name, command in commands.items())
    return f"""\
#compdef sublet
_sublet() {{
  local -a commands
  commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local name=$words[2]
  shift words
  (( CURRENT-- ))
  case $name in
{cases}
  esac
}}
_sublet "$@"
"""


def fish(commands: Mapping[str, Completed]) -> str:
    lines = ["# fish completion of sublet", "complete -c sublet -n __fish_use_subcommand -f"]
    for name, command in commands.items():
        lines.append(f"complete -c sublet -n __fish_use_subcommand -a {name} -d '{_quoted(command.summary)}'")
        here = f"complete -c sublet -n '__fish_seen_subcommand_from {name}'"
        if command.words:
            lines.append(f"{here} -f -a '{' '.join(command.words)}'")
        for flag in command.flags:
            spelled = " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in flag.names)
            given = f" -x -a '{' '.join(flag.values)}'" if flag.values else " -r" if flag.takes_value else ""
            lines.append(f"{here} {spelled}{given} -d '{_quoted(flag.help)}'")
    return "\n".join(lines) + "\n"


def _names(flags: Sequence[Flag]) -> list[str]:
    return [name for flag in flags for name in flag.names]


def _values_case(flags: Sequence[Flag]) -> str:
    return " ".join(f"{name}={','.join(flag.values)}" for flag in flags if flag.values for name in flag.names)


def _zsh_arguments(command: Completed) -> str:
    lines = ["      _arguments"]
    for flag in command.flags:
        given = f":value:({' '.join(flag.values)})" if flag.values else ":value:_files" if flag.takes_value else ""
        lines += [f"'{name}[{_quoted(flag.help)}]{given}'" for name in flag.names]
    lines.append(f"'*:argument:({' '.join(command.words)})'" if command.words else "'*:argument:_files'")
    return " \\\n        ".join(lines)


def _quoted(text: str) -> str:
    """Replaces characters that would end a quoted text in one of the three shells, or a description in zsh."""
    return text.replace("'", "’").replace("[", "(").replace("]", ")").replace("\\", "/")


SCRIPTS = {"bash": bash, "fish": fish, "zsh": zsh}

COMMAND = Command(
    "completion", "print a script that completes commands and options in a shell", add_arguments, complete
)
