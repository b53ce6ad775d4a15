"""Inside a function's process: import the handler, then answer one invocation per line until standard input ends.

`python lambda_runtime.py SEARCH_PATH...`, in the function's environment. Needs only the standard library. Replies go
to the original standard output; the handler's own output goes to standard error, which is the log.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass
class Context:
    """Lambda's context, the handler's second argument."""

    aws_request_id: str
    invoked_function_arn: str
    deadline: float
    function_name: str
    function_version: str
    memory_limit_in_mb: str
    log_group_name: str
    log_stream_name: str
    client_context: None = None
    identity: None = None

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline - time.time()) * 1000))


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path[:0] = sys.argv[1:]
    try:
        handler = import_handler(os.environ["_HANDLER"])
    except BaseException as failure:
        answer(replies, error_of(failure), error=True)
        raise
    answer(replies, None)
    invocations: queue.Queue[str] = queue.Queue()
    threading.Thread(target=read, args=(invocations,), daemon=True).start()
    while True:
        invocation = json.loads(invocations.get())
        log(f"START RequestId: {invocation['invoke-id']}")
        try:
            result = handler(json.loads(invocation["payload"]), context_of(invocation))
            answer(replies, result)
        except Exception as failure:  # noqa: BLE001 - any exception of the handler is its answer
            traceback.print_exc()
            answer(replies, error_of(failure), error=True)
        log(f"END RequestId: {invocation['invoke-id']}")


def read(invocations: queue.Queue[str]) -> None:
    """Runs in its own thread, so that this process ends with LocalStack even in the middle of an invocation."""
    for line in sys.stdin:
        invocations.put(line)
    os._exit(1)


def import_handler(name: str) -> Callable[[Any, Context], Any]:
    module, function = name.rsplit(".", 1)
    handler: Callable[[Any, Context], Any] = getattr(importlib.import_module(module.replace("/", ".")), function)
    return handler


def context_of(invocation: dict[str, Any]) -> Context:
    return Context(
        aws_request_id=invocation["invoke-id"],
        invoked_function_arn=invocation["invoked-function-arn"],
        deadline=invocation["deadline"],
        function_name=os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        function_version=os.environ["AWS_LAMBDA_FUNCTION_VERSION"],
        memory_limit_in_mb=os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
        log_group_name=os.environ["AWS_LAMBDA_LOG_GROUP_NAME"],
        log_stream_name=os.environ["AWS_LAMBDA_LOG_STREAM_NAME"],
    )


def error_of(failure: BaseException) -> dict[str, Any]:
    return {
        "errorMessage": str(failure),
        "errorType": type(failure).__name__,
        "stackTrace": traceback.format_tb(failure.__traceback__),
    }


def log(line: str) -> None:
    """Writes START and END lines as Lambda does; the executor waits for END."""
    sys.stdout.flush()
    os.write(2, f"{line}\n".encode())


def answer(replies: TextIO, body: object, *, error: bool = False) -> None:
    """Writes one line, or nothing: a result that is not JSON raises before anything is written."""
    replies.write(json.dumps({"error": error, "body": body}) + "\n")


if __name__ == "__main__":
    main()
