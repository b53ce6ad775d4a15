"""Makes Spark show our own errors as one sentence, in the first line of its exception.

Spark passes on the text of a Python worker's exception with every traceback that led to it, so the sentence that says
what to do would be the last line of a hundred. Our own errors say enough by themselves. Other exceptions keep their
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
"""PySpark reads this when a worker has failed. The worker then ends, so no other traceback is hidden."""

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
    """Wraps a function that Spark calls."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with plain_errors():
            return method(*args, **kwargs)

    return call


def plain_items(items: Iterator[T]) -> Iterator[T]:
    """Wraps an iterator that Spark consumes."""
    with plain_errors():
        yield from items
