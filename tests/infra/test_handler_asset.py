"""The lease worker's code as it is deployed, and what is refused before anything is deployed."""

from __future__ import annotations

import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Annotations as ErrorsAndWarnings
from aws_cdk.assertions import Match
from sublet.errors import SettingsError
from sublet.settings import HandlerContract
from sublet_cdk.handler_asset import stage_handler, warn_of_unread_requirements
from sublet_cdk.wheels import PackagesNotInstalled, Platform

ENTRY_POINT = Path(__file__).resolve().parents[2] / "functions" / "lease_worker" / "app.py"

PLATFORM = Platform("arm64", "3.13", "manylinux_2_28")


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
        ".env": "PASSWORD=1",
        "orders/.git/config": "x",
    }
    for name, text in files.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "code"


def stage(code: Path, handler: str, contract: HandlerContract = HandlerContract.BATCH) -> Path:
    return stage_handler(code, handler, ENTRY_POINT, code.parent / "staged", PLATFORM, contract=contract)


@pytest.mark.parametrize(
    "handler", ["orders.handler:handle", "flat:renamed", "flat:later", "made:handle", "starred:whatever"]
)
def test_a_handler_that_the_directory_defines_is_staged_with_our_entry_point(code: Path, handler: str) -> None:
    staged = stage(code, handler)
    assert (staged / "app.py").read_text() == ENTRY_POINT.read_text()
    assert (staged / "orders" / "handler.py").is_file()
    assert not (staged / "__pycache__" / "flat.pyc").exists()
    assert not (staged / "cdk.out").exists()
    assert not [path for path in staged.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("handler", "contract", "sentence"),
    [
        ("lambdas:handler", HandlerContract.BATCH, r"takes \(event, context\).*set handler_contract=lambda_event"),
        ("lambdas:later", HandlerContract.BATCH, "set handler_contract=lambda_event"),
        ("kcl:Processor", HandlerContract.BATCH, "has process_records: set handler_contract=record_processor"),
        ("orders.handler:handle", HandlerContract.RECORD_PROCESSOR, "set handler_contract=batch"),
        ("orders.handler:handle", HandlerContract.LAMBDA_EVENT, r"takes \(batch\).*set handler_contract=batch"),
    ],
)
def test_a_handler_of_another_contract_gets_an_error_that_names_its_contract(
    code: Path, handler: str, contract: HandlerContract, sentence: str
) -> None:
    (code / "lambdas.py").write_text("def handler(event, context): ...\nasync def later(event, context): ...\n")
    (code / "kcl.py").write_text("class Processor:\n    def process_records(self, given): ...\n")
    with pytest.raises(SettingsError, match=sentence):
        stage(code, handler, contract)


def test_handler_is_staged_under_its_own_contract(code: Path) -> None:
    (code / "lambdas.py").write_text(
        "import x\n@x\ndef decorated(event, context): ...\ndef handler(event, context): ...\n"
    )
    stage(code, "lambdas:handler", HandlerContract.LAMBDA_EVENT)
    stage(code, "lambdas:decorated")  # what it takes, only a run can tell: the worker does, when it is deployed


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
        ("orders.handler", "module:function"),
        ("", "module:function"),
    ],
)
def test_missing_handler_is_refused_with_the_names_that_exist(code: Path, handler: str, says: str) -> None:
    with pytest.raises(SettingsError, match="setting handler = ") as refused:
        stage(code, handler)
    assert says in str(refused.value)
    assert not (code.parent / "staged").exists()


@pytest.mark.parametrize("theirs", ["app.py", "app/__init__.py", f"app{EXTENSION_SUFFIXES[0]}"])
def test_a_module_with_the_entry_points_name_is_refused(code: Path, theirs: str) -> None:
    """A package would be imported instead of it."""
    (code / theirs).parent.mkdir(exist_ok=True)
    (code / theirs).write_text("")
    with pytest.raises(SettingsError, match=rf"handler_code = .*without {re.escape(theirs)}: .*rename yours"):
        stage(code, "flat:renamed")


def test_a_folder_of_that_name_without_a_package_is_ignored(code: Path) -> None:
    (code / "app").mkdir()
    (code / "app" / "page.html").write_text("")
    assert (stage(code, "flat:renamed") / "app.py").is_file()


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"setting handler_code = .*nowhere"):
        stage(tmp_path / "nowhere", "flat:handle")


def test_a_dot_file_is_shipped_if_it_is_asked_for(code: Path) -> None:
    staged = stage_handler(code, "flat:renamed", ENTRY_POINT, code.parent / "staged", PLATFORM, [".env"])
    assert (staged / ".env").read_text() == "PASSWORD=1"
    assert not (staged / "orders" / ".git").exists()


def test_symbolic_link_inside_is_shipped_as_its_target(code: Path) -> None:
    (code / "linked.py").symlink_to("flat.py")
    (code / "linked").symlink_to("orders")
    staged = stage(code, "linked.handler:handle")
    assert (staged / "linked.py").read_text() == (code / "flat.py").read_text()
    assert (staged / "linked" / "handler.py").is_file()
    assert not [path for path in staged.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    ("link", "leads_to", "says"),
    [
        ("secrets", "/etc", "leads to /etc"),
        ("passwords.py", "../outside.py", "outside.py"),
        ("orders/again", "..", "a link to a folder that it is in"),
        ("again", ".", "a link to a folder that it is in"),
        ("nothing.py", "nowhere.py", "leads nowhere"),
        ("ring.py", "ring.py", "leads nowhere"),
    ],
)
def test_a_link_that_leaves_the_folder_or_never_ends_is_refused(
    code: Path, link: str, leads_to: str, says: str
) -> None:
    (code.parent / "outside.py").write_text("SECRET = 1\n")
    (code / link).symlink_to(leads_to)
    with pytest.raises(SettingsError, match="setting handler_code = ") as refused:
        stage(code, "flat:renamed")
    assert says in str(refused.value)


def test_requirements_are_installed_for_the_functions_platform(code: Path) -> None:
    (code / "requirements.txt").write_text("msgspec==0.22.0\n")
    staged = stage(code, "flat:renamed")
    (binary,) = (staged / "msgspec").glob("*.so")
    assert "cpython-313-aarch64" in binary.name
    assert (staged / "flat.py").is_file()


def test_requirements_without_wheels_are_refused_in_one_line(code: Path) -> None:
    (code / "requirements.txt").write_text("msgspec==\n")
    with pytest.raises(PackagesNotInstalled, match="cannot be installed for Python 3") as problem:
        stage(code, "flat:renamed")
    assert len(str(problem.value).splitlines()) == 1


@pytest.mark.parametrize(
    "pinned", ["protobuf==3.20.3", "aws-lambda-powertools==2.43.1", "boto3==1.34.162", "h2==4.0.0"]
)
def test_requirements_that_would_hide_a_package_of_sublet_are_refused_by_name(code: Path, pinned: str) -> None:
    (code / "requirements.txt").write_text(f"{pinned}\n")
    with pytest.raises(
        PackagesNotInstalled, match="before those of sublet, which needs aws-lambda-powertools>="
    ) as refused:
        stage(code, "flat:renamed")
    assert pinned in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("poetry.lock", "poetry export"),
        ("uv.lock", "uv export"),
        ("Pipfile", "pipenv requirements"),
        ("", ""),
    ],
)
def test_packages_that_are_only_in_another_tool_s_file_are_warned_of(tmp_path: Path, name: str, says: str) -> None:
    if name:
        (tmp_path / name).write_text("")
    stack = Stack()
    warn_of_unread_requirements(stack, tmp_path)
    found = ErrorsAndWarnings.from_stack(stack).find_warning(
        "*", Match.string_like_regexp(f"none of its packages.*{says}")
    )
    assert len(found) == bool(name)
    (tmp_path / "requirements.txt").write_text("")
    another = Stack()
    warn_of_unread_requirements(another, tmp_path)
    assert not ErrorsAndWarnings.from_stack(another).find_warning("*", Match.any_value())
