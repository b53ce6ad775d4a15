"""`sublet` and `python -m sublet`: the one place where the core meets its wings.

`sublet run` is the core's own. The other commands are in the wing `sublet.operate`, which a Lambda layer lacks.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from sublet.command_line import program
from sublet.system.early_end import end_at_sigterm

CORE: program.Groups = {"consume a stream": {"run": "sublet.command_line.run:COMMAND"}}


UNTIL_SIGTERM = ("run", "exporter")

DEPLOYED = "this copy of sublet was deployed with `sublet run` alone; the package that you install has every command"


def main() -> int:
    given = sys.argv[1:]
    if given[:1] and given[0] in UNTIL_SIGTERM:
        end_at_sigterm()
    is_core_alone = find_spec("sublet.operate") is None
    names_command = bool(given) and not given[0].startswith("-")
    if given[:1] == ["run"] or (is_core_alone and not names_command):
        return program.main(given, CORE)
    if is_core_alone:
        print(f"sublet: {DEPLOYED}", file=sys.stderr)
        return 2
    from sublet.operate.cli.main import GROUPS

    return program.main(given, GROUPS)


if __name__ == "__main__":
    raise SystemExit(main())
