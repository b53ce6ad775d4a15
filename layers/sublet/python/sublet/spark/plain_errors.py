"""Our own errors, as Spark shows them: the sentence alone, in the first line of its exception.

Spark sends home the text of a Python worker's exception, with every traceback that led to it: the sentence that says what to do
was its last line, below a hundred others. An error that is named says enough by itself. Whatever else is raised keeps its
traceback.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from sublet.errors import SubletError

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""PySpark asks for it when a worker has failed, which ends by that: nobody else's traceback is hidden."""

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def plain_errors() -> Iterator[None]:
    try:
        yield
    except SubletError as error:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise error.with_traceback(None) from None


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """For what Spark calls."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with plain_errors():
            return method(*args, **kwargs)

    return call


def plain_items(items: Iterator[T]) -> Iterator[T]:
    """For what Spark iterates over."""
    with plain_errors():
        yield from items
