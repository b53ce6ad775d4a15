"""What is deployed as the lease worker's code, and what is refused before anything is deployed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sublet.errors import SettingsError
from sublet_cdk.handler_asset import stage_handler

ENTRY_POINT = Path(__file__).resolve().parents[2] / "functions" / "lease_worker" / "app.py"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    files = {
        "orders/__init__.py": "",
        "orders/handler.py": "import json\ndef handle(batch):\n    pass\n",
        "flat.py": "from orders.handler import handle as renamed\nasync def later(batch): ...\n",
        "made.py": "try:\n    on = 1\nexcept ValueError:\n    on = 2\nif on:\n    handle = print\n",
        "starred.py": "from orders.handler import *\n",
        "broken.py": "def handle(:\n",
        "__pycache__/flat.pyc": "x",
        "cdk.out/asset.1/flat.py": "x",
    }
    for name, text in files.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "code"


def stage(code: Path, handler: str) -> Path:
    return stage_handler(code, handler, ENTRY_POINT, code.parent / "staged")


@pytest.mark.parametrize(
    "handler", ["orders.handler:handle", "flat:renamed", "made:handle", "starred:whatever"]
)
def test_a_handler_that_the_directory_defines_is_staged_with_our_entry_point(
    code: Path, handler: str
) -> None:
    staged = stage(code, handler)
    assert (staged / "app.py").read_text() == ENTRY_POINT.read_text()
    assert (staged / "orders" / "handler.py").is_file()
    assert not (staged / "__pycache__").exists()
    assert not (staged / "cdk.out").exists()


def test_staging_again_leaves_nothing_of_the_time_before(code: Path) -> None:
    stage(code, "flat:renamed")
    (code / "made.py").unlink()
    assert not (stage(code, "flat:renamed") / "made.py").exists()


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        ("orders.handler:handel", "it defines: handle, json"),
        ("order.handler:handle", "it has: broken, flat, made, orders, orders.handler, starred"),
        ("broken:handle", "broken.py is not"),
        ("flat:later", "plain function"),
        ("orders.handler", "module:function"),
        ("", "module:function"),
    ],
)
def test_a_handler_that_is_not_there_is_refused_with_what_is(code: Path, handler: str, says: str) -> None:
    with pytest.raises(SettingsError, match="setting handler = ") as refused:
        stage(code, handler)
    assert says in str(refused.value)
    assert not (code.parent / "staged").exists()


def test_a_directory_with_an_app_py_of_its_own_is_refused(code: Path) -> None:
    (code / "app.py").write_text("")
    with pytest.raises(SettingsError, match=r"without app\.py"):
        stage(code, "flat:renamed")


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"setting handler_code = .*nowhere"):
        stage(tmp_path / "nowhere", "flat:handle")
