"""`python -m benchmarks.shape CHECKOUT`: how large a checkout's library is, and how many of its modules do a thing.

Files, lines of code (neither blank, nor comment, nor docstring), the median of a file and classes, of the core and of
each wing; the library's zipped bytes; and the modules of which a function is entered on five walks: a record through a
window, a tick, a put, `sublet seek`, and a micro-batch of Spark (by .local/spark). `make setup` has run in CHECKOUT.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout
from importlib import import_module
from io import BytesIO, StringIO
from pathlib import Path
from runpy import run_module
from statistics import median
from typing import Any

PACKAGE = "layers/sublet/python/sublet"
WINGS = ("operate", "spark", "testing")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shape", description=__doc__)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout.resolve()
    files = sorted((checkout / PACKAGE).rglob("*.py"))
    for part in ("core", *WINGS):
        _report(part, [each for each in files if _part(each.relative_to(checkout / PACKAGE)) == part])
    core = [each for each in files if _part(each.relative_to(checkout / PACKAGE)) == "core"]
    print(f"zipped: the core {_zipped(checkout, core):,} bytes, all of it {_zipped(checkout, files):,}")
    paths = [checkout / "layers/sublet/python", checkout / "infra", checkout]
    for name in WALKS:
        python = checkout / (".local/spark" if name == "micro-batch" else ".venv") / "bin/python"
        if python.exists():
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "WALK": name}
            subprocess.run([str(python), "-P", __file__], check=False, cwd=checkout, env=environment)


def _part(path: Path) -> str:
    return path.parts[0] if path.parts[0] in WINGS else "core"


def _report(part: str, files: Sequence[Path]) -> None:
    lines, classes = [], 0
    for file in files:
        tree = ast.parse(file.read_text())
        classes += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        lines.append(len(_code(tree)))
    print(f"{part}: {len(files)} files, {sum(lines):,} lines of code, median {median(lines):g}; {classes} classes")


def _code(tree: ast.Module) -> set[int]:
    """The numbers of the lines that a statement or an expression stands in, without docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.end_lineno = node.value.lineno = node.end_lineno = node.lineno = 0
        elif isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword | ast.alias) and node.lineno:
            found |= {node.lineno, node.end_lineno or node.lineno}
    return found


def _zipped(checkout: Path, files: Sequence[Path]) -> int:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        for file in files:
            made.write(file, file.relative_to(checkout))
    return len(content.getvalue())


def _window() -> Callable[[], object]:
    from benchmarks import worker_loop  # noqa: PLC0415 -- the checkout's

    stream = _memory().MemoryStream(clock=import_module("sublet.system.clock").SystemClock(), name="memory")
    stream.put("key", b"data", 0)
    return lambda: worker_loop.__dict__["_worker"](stream)


def _tick() -> Callable[[], object]:
    memory, settings = _memory(), import_module("sublet.settings")
    ports = memory.memory_ports(memory.MemoryStream(4), memory.MemoryLeaseTable([]))
    manager = import_module("sublet.engine.manager.tick").LeaseManager(
        ports, memory.MemoryDispatcher(), settings.Settings(application="orders", stream="orders")
    )
    tick: Callable[[], object] = manager.tick
    return tick


def _put() -> Callable[[], object]:
    account = _memory().MemoryAccount()
    account.create("orders", 2)
    producer = import_module("sublet").Producer("orders", account=account)

    def put() -> None:
        with producer:
            producer.put("key", b"data")

    return put


def _seek() -> Callable[[], object]:
    """From argv to the conditional write, on the embedded AWS."""
    runs, embedded = import_module("benchmarks.runs"), import_module("infra.local.embedded")
    aws = AWS.enter_context(embedded.embedded_aws())
    application = runs.Bench(aws, aws.environment).new_application()
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
    lease, row = import_module("sublet.protocol.lease"), import_module("sublet.protocol.lease_row")
    trim_horizon = import_module("sublet.protocol.checkpoint").TRIM_HORIZON
    item = row.encode_row(lease.Lease("shardId-000000000000", trim_horizon, 1))
    aws.client("dynamodb").put_item(TableName=application, Item=item)
    os.environ.update(aws.environment)
    named = ["--application", application, "--stream", "orders"]
    sys.argv = ["sublet", "seek", "latest", "--execute", "--confirm", application, *named]

    def seek() -> None:
        try:
            run_module("sublet", run_name="__main__")
        except SystemExit as left:
            if left.code:
                raise

    return seek


def _micro_batch() -> Callable[[], object]:
    query = import_module("tests.spark.memory_query").memory_query(startPosition="TRIM_HORIZON")
    query.stream.inner.put("key", b"data", 0)

    def batch() -> None:
        query.plan()
        query.run()

    return batch


def _memory() -> Any:
    try:
        return import_module("sublet.testing.memory")
    except ModuleNotFoundError:
        return import_module("sublet.memory")


AWS = ExitStack()

WALKS: dict[str, Callable[[], Callable[[], object]]] = {
    "record through a window": _window,
    "tick": _tick,
    "put": _put,
    "seek": _seek,
    "micro-batch": _micro_batch,
}


def _walk(name: str) -> None:
    do, entered = WALKS[name](), set[str]()

    def look(frame: Any, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("sublet.") and frame.f_code.co_name != "<module>":
            entered.add(module)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        with redirect_stdout(StringIO()):
            do()
    finally:
        sys.setprofile(None)
    entered = {each for each in entered if ".memory" not in each and not each.startswith("sublet.testing")}
    AWS.close()
    print(f"{name}: {len(entered)} modules entered")


if __name__ == "__main__":
    _walk(os.environ["WALK"]) if "WALK" in os.environ else main()
