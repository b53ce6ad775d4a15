"""`make local`: run an embedded AWS until Ctrl-C, and print what to export to use it."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading

from infra.local.embedded import embedded_aws
from infra.local.server import ServerFailed


def main() -> int:
    argparse.ArgumentParser(
        prog="python -m infra.local", description="Run an AWS on this machine's loopback, until Ctrl-C."
    ).parse_args()
    stop = threading.Event()
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, lambda *_: stop.set())
    print("==> Starting the embedded AWS (about two seconds)", file=sys.stderr)
    try:
        with embedded_aws() as aws:
            for name, value in aws.environment.items():
                print(f"export {name}={shlex.quote(value)}", flush=True)
            for server in aws.servers:
                print(f"# {server.name}: log in {server.log}", file=sys.stderr)
            print("==> It is up. Paste the lines above into another shell; Ctrl-C ends it.", file=sys.stderr)
            stop.wait()
            print("\n==> Stopping", file=sys.stderr)
    except ServerFailed as failure:
        print(f"python -m infra.local: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
