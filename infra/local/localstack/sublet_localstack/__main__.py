"""LocalStack in host mode: `python -m sublet_localstack KINESIS_LOCAL DYNAMODB_LOCAL`, in an empty folder that it may
fill.

LocalStack downloads its servers on first use. Here they are linked to where it looks for them, from packages that
lock files pin, so that it downloads nothing.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

from twisted.internet import endpoints

LIBRARIES = Path("var/lib/localstack/lib")
JAVA = "21"  # the folder in which LocalStack looks for DynamoDB Local's Java, whatever its version


def lay_out(kinesis_local: Path, dynamodb_local: Path) -> str:
    """Link the servers to where LocalStack looks for them, below the working directory. Returns kinesis-local's
    version."""
    version = str(json.loads((kinesis_local / "package.json").read_text())["version"])
    java = Path(sys.executable).with_name("dynamodb-local-java")
    for place, target in {
        LIBRARIES / "java" / JAVA / "bin" / "java": java,
        LIBRARIES / "dynamodb-local" / "2": dynamodb_local,
        LIBRARIES / "kinesis-local" / version / "node_modules" / "kinesis-local": kinesis_local,
    }.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return version


def main() -> None:
    os.environ["KINESIS_MOCK_VERSION"] = lay_out(Path(sys.argv[1]), Path(sys.argv[2]))
    os.environ["FILESYSTEM_ROOT"] = str(Path.cwd())
    from localstack.runtime.main import main as run  # noqa: PLC0415 - it reads the environment on import

    # LocalStack's gateway ignores the address in GATEWAY_LISTEN, and would listen on every interface.
    endpoints.TCP4ServerEndpoint = partial(endpoints.TCP4ServerEndpoint, interface="127.0.0.1")
    run()


if __name__ == "__main__":
    main()
