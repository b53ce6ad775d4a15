"""Lambda execution environments as processes: each runs one invocation at a time and stays warm for the next.

As on AWS, a function that exceeds its time or dies takes its process with it, the invocation fails with Lambda's own
error, and the environment's next invocation starts a new process.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult

RUNTIME = Path(__file__).with_name("lambda_runtime.py")
HOST = "127.0.0.1"
INHERITED = ("LANG", "PATH", "TMPDIR")
INIT_LIMIT = 60.0
"""Seconds to import the handler. AWS allows ten and then tries again; a busy laptop may need more."""

LOG_LIMIT = 1.0
"""Seconds to wait for the rest of an invocation's log. A handler's own child may hold the log open for longer."""


class ProcessExecutor:
    """One execution environment of a function version, with the methods of LocalStack's RuntimeExecutor."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:  # noqa: A002 - LocalStack's name for it
        self.id = id
        self.function_version = function_version
        self._variables: Mapping[str, str] = {}
        self._sandbox: Sandbox | None = None

    def start(self, env_vars: Mapping[str, object]) -> None:
        """Import the handler. Raises StatusErrorException, with Lambda's error, if that fails."""
        self._variables = {name: str(value) for name, value in env_vars.items()}
        self._sandbox = self._new_sandbox()

    def stop(self) -> None:
        if self._sandbox is not None:
            self._sandbox.kill()

    def invoke(self, payload: Mapping[str, str]) -> InvocationResult:
        request = payload["invoke-id"]
        seconds = float(self.function_version.config.timeout)
        if self._sandbox is None or not self._sandbox.alive():
            self._sandbox = self._new_sandbox()
        logged = len(self._sandbox.log)
        reply = self._sandbox.ask(payload, seconds)
        logs = "".join(self._sandbox.log[logged:])
        return InvocationResult(request, json.dumps(reply["body"]).encode(), bool(reply["error"]), logs)

    def get_logs(self) -> str:
        return "".join(self._sandbox.log) if self._sandbox else ""

    def get_address(self) -> str:
        return HOST

    def get_endpoint_from_executor(self) -> str:
        return HOST

    def get_runtime_endpoint(self) -> str:
        return f"http://{HOST}:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        for code in (function_version.config.code, *(layer.code for layer in function_version.config.layers)):
            code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.destroy_cached()

    @classmethod
    def validate_environment(cls) -> bool:
        return True

    def _new_sandbox(self) -> Sandbox:
        self.prepare_version(self.function_version)  # a layer may be newer than the version's preparation
        function = self.function_version.config
        task_root = function.code.get_unzipped_code_location()
        # As in /opt/python: later layers override earlier ones, and the function's own code overrides both.
        layers = [layer.code.get_unzipped_code_location() / "python" for layer in reversed(function.layers)]
        variables = {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            **self._variables,
            "LAMBDA_TASK_ROOT": str(task_root),
        }
        sandbox = Sandbox(variables, [str(task_root), *map(str, layers)])
        failure = sandbox.wait_for_init()
        if failure is not None:
            sandbox.kill()
            raise StatusErrorException("the handler could not be imported", json.dumps(failure).encode())
        return sandbox


class Sandbox:
    """One process of `lambda_runtime.py`: JSON lines in and out, and the handler's own output in `log`."""

    def __init__(self, variables: Mapping[str, str], search_path: list[str]) -> None:
        self.log: list[str] = []
        self._replies: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-P", str(RUNTIME), *search_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=search_path[0],
            env=variables,
            text=True,
        )
        self._logged = threading.Event()
        threading.Thread(target=self._read_log, daemon=True).start()
        threading.Thread(target=self._read_replies, daemon=True).start()

    def wait_for_init(self) -> dict[str, Any] | None:
        """Lambda's error if the handler could not be imported; otherwise None."""
        reply = self._reply("init", INIT_LIMIT)
        failure: dict[str, Any] | None = reply["body"] if reply["error"] else None
        return failure

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, payload: Mapping[str, str], seconds: float) -> dict[str, Any]:
        """The handler's reply, or Lambda's error: then the process has ended, or was ended because its time was up."""
        assert self._process.stdin is not None
        invocation = {**payload, "deadline": time.time() + seconds}
        self._logged.clear()
        with suppress(OSError):  # it died before it could read: its end is the reply
            self._process.stdin.write(json.dumps(invocation) + "\n")
            self._process.stdin.flush()
        reply = self._reply(payload["invoke-id"], seconds)
        self._logged.wait(LOG_LIMIT)
        return reply

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _reply(self, request: str, seconds: float) -> dict[str, Any]:
        try:
            reply = self._replies.get(timeout=seconds)
        except queue.Empty:
            self.kill()
            return _failure(
                "Sandbox.Timedout", f"RequestId: {request} Error: Task timed out after {seconds:.2f} seconds"
            )
        if reply is not None:
            return reply
        code = self._process.wait()
        ending = f"signal: {-code}" if code < 0 else f"exit status {code}"
        return _failure("Runtime.ExitError", f"RequestId: {request} Error: Runtime exited with error: {ending}")

    def _read_replies(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # otherwise it was killed while writing
                self._replies.put(json.loads(line))
        self._replies.put(None)

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line)
            if line.startswith("END RequestId: "):
                self._logged.set()
        self._logged.set()


def _failure(kind: str, message: str) -> dict[str, Any]:
    return {"error": True, "body": {"errorType": kind, "errorMessage": message}}
