"""From `module:function` to a handler, or one clear sentence that says what is wrong with it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sublet.errors import HandlerNotLoadable
from sublet.handler import Batch
from sublet.handlers.load import handler_of, load_handler
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.records import StreamRecord, UserRecord

from tests.doubles.engine_world import moment

RECORD = StreamRecord("1", b"data", "key", moment("2026-01-31T08:00:00"))
BATCH = Batch("events", "shardId-000000000000", (UserRecord(b"data", "key", 0, RECORD),), 0, lambda _: True)

Write = Callable[..., None]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules to a folder on the Python path; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(**sources: str) -> None:
        for name, source in sources.items():
            path = tmp_path / (name.replace("__in__", "/") + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_handle_alone_is_enough(module: Write) -> None:
    module(orders="seen = []\ndef handle(batch):\n    seen.extend(batch.records)")
    handler = load_handler("orders:handle")
    handler.lease_acquired("shard", TRIM_HORIZON)
    handler.handle(BATCH)
    handler.shard_ended("shard")
    handler.lease_lost("shard")
    assert sys.modules["orders"].seen == list(BATCH.records)


def test_the_optional_functions_of_the_module_are_called(module: Write) -> None:
    module(
        orders="""
calls = []
def consume(batch): calls.append("consume")
def lease_acquired(shard_id, checkpoint): calls.append(("acquired", shard_id, str(checkpoint)))
def lease_lost(shard_id): calls.append(("lost", shard_id))
def shard_ended(shard_id): calls.append(("ended", shard_id))
"""
    )
    handler = load_handler("orders:consume")
    handler.lease_acquired("s", TRIM_HORIZON)
    handler.handle(BATCH)
    handler.shard_ended("s")
    handler.lease_lost("s")
    assert sys.modules["orders"].calls == [
        ("acquired", "s", "TRIM_HORIZON"),
        "consume",
        ("ended", "s"),
        ("lost", "s"),
    ]


def test_a_module_in_a_package_is_found(module: Write) -> None:
    module(shop__in____init__="", shop__in__orders="def handle(batch): pass")
    load_handler("shop.orders:handle")


def test_a_callable_object_is_a_function_too(module: Write) -> None:
    module(orders="class Handler:\n    def __call__(self, batch): pass\nhandle = Handler()")
    load_handler("orders:handle").handle(BATCH)


def test_an_object_of_the_module_brings_its_own_functions(module: Write) -> None:
    module(
        orders="""
class Audit:
    def __init__(self): self.calls = []
    def handle(self, batch): self.calls.append("handle")
    def lease_releasing(self, shard_id): self.calls.append("releasing " + shard_id)
audit = Audit()
def lease_releasing(shard_id): audit.calls.append("the module's")
"""
    )
    handler = load_handler("orders:audit")
    handler.handle(BATCH)
    handler.lease_releasing("s")
    assert sys.modules["orders"].audit.calls == ["handle", "releasing s"]


@pytest.mark.parametrize(
    ("reference", "source", "sentence"),
    [
        ("", "", "handler '' is not of the form module:function"),
        ("orders", "", "is not of the form module:function"),
        ("orders:", "", "is not of the form module:function"),
        (":handle", "", "is not of the form module:function"),
        ("misspelt:handle", "", "there is no module misspelt on the Python path"),
        ("shop.orders:handle", "", "there is no module shop on the Python path"),
        ("orders.sub:handle", "", "there is no module orders.sub on the Python path"),
        ("orders:handle", "import nowhere_at_all", "orders imports nowhere_at_all, which is not installed"),
        ("orders:handle", "import nowhere.at.all", "orders imports nowhere, which is not installed"),
        ("orders:handle", "def handle(batch:", "importing orders raised SyntaxError"),
        ("orders:handle", "1 / 0", "importing orders raised ZeroDivisionError: division by zero"),
        (
            "orders:handle",
            "from json import nothing",
            "importing orders raised ImportError: cannot import name",
        ),
        ("orders:handle", "import os; os.environ['NOT_SET']", "importing orders raised KeyError: 'NOT_SET'"),
        ("orders:handle", "import sys; sys.exit(3)", "importing orders raised SystemExit: 3"),
        ("orders:handle", "", "module orders has no function handle"),
        (
            "orders:handel",
            "import json\nfrom json import dumps\ndef handle(batch): ...\ndef _own(): ...\nclass Other: ...",
            "module orders has no function handel; it has: Other, handle",
        ),
        ("orders.py:handle", "", "there is no module orders.py on the Python path; did you mean orders:handle?"),
        (
            "orders:handle",
            "def __getattr__(name):\n    raise OSError('no disk')",
            "looking for handle in orders raised OSError: no disk",
        ),
        (
            "orders:handle",
            "def handle(batch): ...\ndef __getattr__(name):\n    raise OSError('no disk')",
            "looking for its lease functions raised OSError: no disk",
        ),
        ("orders:handle", "handle = 5", "orders.handle is of type int, not a function"),
        (
            "orders:handle",
            "def handle(b): pass\nlease_lost = 'x'",
            "orders.lease_lost is of type str, not a function",
        ),
        ("orders:handle", "class handle:\n    def __init__(self, batch): pass", "orders.handle is a class"),
        (
            "orders:handle",
            "def handle(b): pass\ndef shard_ended(s): yield",
            "orders.shard_ended is a generator",
        ),
        (
            "orders:handle",
            "def handle(event, context): pass",
            "orders.handle takes (event, context), but is called",
        ),
        (
            "orders:handle",
            "def handle(b): pass\ndef lease_lost(): pass",
            "orders.lease_lost takes (), but is called",
        ),
    ],
)
def test_load_error_says_why_in_one_sentence(module: Write, reference: str, source: str, sentence: str) -> None:
    module(orders=source)
    with pytest.raises(HandlerNotLoadable) as refused:
        load_handler(reference)
    said = str(refused.value)
    assert sentence in said
    assert repr(reference) in said
    assert "\n" not in said.split(": importing", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("sources", "place"),
    [
        ({"orders": "import os\n\nos.environ['NOT_SET']"}, "KeyError: 'NOT_SET' ({}/orders.py, line 3)"),
        ({"orders": "import nowhere"}, "imports nowhere, which is not installed ({}/orders.py, line 1)"),
        ({"orders": "x = 1\ndef handle(batch:"}, "SyntaxError: '(' was never closed ({}/orders.py, line 2)"),
        ({"orders": "\nimport shop", "shop": "\n\n1 / 0"}, "division by zero ({}/shop.py, line 3)"),
        ({"orders": "import json\njson.loads('x')"}, "char 0) ({}/orders.py, line 2)"),
        (
            {"orders": "def __getattr__(name):\n    raise OSError('no disk')"},
            "no disk ({}/orders.py, line 2)",
        ),
    ],
)
def test_a_failed_import_names_the_file_and_the_line(
    module: Write, tmp_path: Path, sources: dict[str, str], place: str
) -> None:
    """Of the user's own code, wherever below it the exception came from."""
    module(**sources)
    with pytest.raises(HandlerNotLoadable) as refused:
        load_handler("orders:handle")
    assert str(refused.value).endswith(place.format(tmp_path))


def test_a_file_below_the_working_directory_is_named_from_there(
    module: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module(shop__in____init__="", shop__in__orders="1 / 0")
    with pytest.raises(HandlerNotLoadable, match=r"\(shop/orders\.py, line 1\)$"):
        load_handler("shop.orders:handle")


def test_a_handler_is_a_function_an_object_a_module_or_a_reference(module: Write) -> None:
    module(orders="seen = []\ndef handle(batch):\n    seen.extend(batch.records)")
    seen: list[str] = []

    class Kept:
        def handle(self, batch: Batch) -> None:
            seen.append(batch.shard_id)

        def lease_lost(self, shard_id: str) -> None:
            seen.append(f"lost {shard_id}")

    kept = handler_of(Kept())
    kept.handle(BATCH)
    kept.lease_lost("s")
    assert seen == [BATCH.shard_id, "lost s"]
    for given in (lambda _: seen.append("function"), "orders:handle"):
        handler_of(given).handle(BATCH)
    handler_of(sys.modules["orders"]).handle(BATCH)
    assert seen[-1] == "function"
    assert sys.modules["orders"].seen == [*BATCH.records, *BATCH.records]


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        (5, "handler int is not a function, and has no function handle"),
        (lambda: None, "takes (), but is called with (batch)"),
        (str, "handler str: it is a class"),
    ],
)
def test_object_that_is_no_handler_is_refused(handler: object, sentence: str) -> None:
    with pytest.raises(HandlerNotLoadable, match=re.escape(sentence)):
        handler_of(handler)
