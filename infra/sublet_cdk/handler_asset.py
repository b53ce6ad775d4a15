"""The lease worker's code: the user's handler folder with our entry point added, checked before it is deployed."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Collection, Iterable, Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from aws_cdk import Annotations
from constructs import Construct
from sublet.errors import SettingsError
from sublet.handlers.shape import another_kind, is_processor_in, meant_for_another, signature_in
from sublet.settings import HandlerContract
from sublet_cdk.bytecode import CODE, add_bytecode
from sublet_cdk.code_folder import copy_code
from sublet_cdk.wheels import PackagesNotInstalled, Platform, install

ENTRY_MODULE = "app"
ENTRY_POINT = f"{ENTRY_MODULE}.py"
REQUIREMENTS = "requirements.txt"

EXPORTED_BY = {
    "uv.lock": "uv export --no-hashes --no-emit-project -o requirements.txt",
    "poetry.lock": "poetry export --without-hashes -o requirements.txt",
    "pdm.lock": "pdm export --without-hashes -o requirements.txt",
    "Pipfile.lock": "pipenv requirements > requirements.txt",
    "Pipfile": "pipenv requirements > requirements.txt",
}
"""Other tools' files -> the command that writes a requirements.txt from them."""

UNREAD_REQUIREMENTS = "sublet:handlerRequirements"
"""The id of the warning, by which it can be acknowledged."""

OPTIONAL_AT_RUN_TIME = "fan-out"
"""The extra whose packages the layer has too."""

ANYTHING = "*"
"""Stands for the names that `from module import *` defines, which are not known without running it."""


def stage_handler(
    handler_code: Path,
    handler: str,
    entry_point: Path | None,
    target: Path,
    platform: Platform,
    dot_files: Collection[str] = (),
    contract: HandlerContract = HandlerContract.BATCH,
) -> Path:
    """Fill `target` with the handler folder, the packages of its requirements.txt, and Lambda's entry point, and
    return it.

    Raises SettingsError if the folder does not exist, has a module with the entry point's name, does not define
    `handler`, defines it for another contract, or has a link that leaves it; PackagesNotInstalled if its requirements
    have no wheels for the platform, or would hide a package of the layer by an older one than sublet needs.
    """
    if not handler_code.is_dir():
        raise SettingsError("handler_code", str(handler_code), "a directory with the handler's module in it")
    check_contract(check_handler_exists(handler_code, handler), handler, contract)
    shutil.rmtree(target, ignore_errors=True)
    if (handler_code / REQUIREMENTS).is_file():
        _install_requirements(handler_code / REQUIREMENTS, platform, target)
    copy_code(handler_code, target, "handler_code", dot_files)
    if entry_point is not None:
        if (theirs := _imported_as_entry_point(target)) is not None:
            raise SettingsError(
                "handler_code",
                str(handler_code),
                f"a directory without {theirs}: sublet puts its entry point {ENTRY_POINT} there, and Python would "
                f"import one for the other; rename yours",
            )
        shutil.copyfile(entry_point, target / ENTRY_POINT)
        add_bytecode(target, platform.python_version, CODE)
    return target


def _install_requirements(requirements: Path, platform: Platform, target: Path) -> None:
    needed = _needed_by_sublet()
    try:
        install(requirements, platform, target, locked=False, within=needed)
    except PackagesNotInstalled as refused:
        if not any(requirement in str(refused) for requirement in needed):
            raise
        raise PackagesNotInstalled(
            f"{refused} Python imports the handler's packages before those of sublet, which needs {', '.join(needed)}"
        ) from refused


def _needed_by_sublet() -> tuple[str, ...]:
    """The library's own requirements. Packages beside the handler come before the layer's on Lambda's path, and a
    container's.
    """
    try:
        stated = metadata.requires("sublet") or ()
    except metadata.PackageNotFoundError:  # only on the Python path
        return ()
    plain = (requirement.partition(";") for requirement in stated)
    return tuple(name.strip() for name, _, marker in plain if not marker or OPTIONAL_AT_RUN_TIME in marker)


def warn_of_unread_requirements(scope: Construct, handler_code: Path) -> None:
    """Warns if the folder's packages are stated only in a file that sublet does not read."""
    found = next((name for name in EXPORTED_BY if (handler_code / name).is_file()), None)
    if found is None or (handler_code / REQUIREMENTS).is_file():
        return
    Annotations.of(scope).add_warning_v2(
        UNREAD_REQUIREMENTS,
        f"{handler_code} has a {found} but no {REQUIREMENTS}, so none of its packages are deployed. "
        f"If the handler needs any, write that file first: {EXPORTED_BY[found]}",
    )


def _imported_as_entry_point(target: Path) -> Path | None:
    """Returns what Python would import under the entry point's name: a module, a package or an extension, from any
    source.
    """
    PathFinder.invalidate_caches()
    found = PathFinder.find_spec(ENTRY_MODULE, [str(target)])
    return Path(found.origin).relative_to(target) if found is not None and found.origin else None


def check_handler_exists(handler_code: Path, handler: str, setting: str = "handler") -> ast.Module:
    """Refuse a `module:function` that the folder does not define, without running its code. Returns the parsed module.
    `setting`: the setting that the error names."""
    module, _, function = handler.partition(":")
    if not module or not function:
        raise SettingsError(setting, handler, "module:function, such as orders.handler:handle")
    source = _module_file(handler_code, module)
    if source is None:
        found = ", ".join(sorted(_modules(handler_code))) or "none"
        raise SettingsError(setting, handler, f"a module in {handler_code}; it has: {found}")
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"), str(source))
    except (SyntaxError, ValueError) as error:
        raise SettingsError(setting, handler, f"a module that Python can read; {source} is not: {error}") from error
    names = set(_defined(tree.body))
    if function not in names and ANYTHING not in names:
        raise SettingsError(
            setting,
            handler,
            f"a name that {source} defines; it defines: {', '.join(sorted(names)) or 'none'}",
        )
    return tree


def check_contract(module: ast.Module, handler: str, contract: HandlerContract) -> None:
    """Refuse a function whose parameters fit another contract, as far as the module's own statements show. The worker
    checks again at its start, without guessing."""
    name = handler.partition(":")[2]
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == name:
            takes = signature_in(statement)
            problem = takes and meant_for_another(takes, contract)
            if problem:
                raise SettingsError("handler", handler, f"{name} {problem}")
        if isinstance(statement, ast.ClassDef) and statement.name == name:
            other = another_kind(is_processor_in(statement), contract)
            if other:
                raise SettingsError("handler", handler, f"{name} {other}")


def check_is_plain(module: ast.Module, function: str, setting: str) -> None:
    """Refuse a coroutine where it would never be awaited."""
    name = function.partition(":")[2]
    if any(isinstance(each, ast.AsyncFunctionDef) and each.name == name for each in module.body):
        raise SettingsError(setting, function, "a plain function: `async def` would return before anything is done")


def _module_file(directory: Path, module: str) -> Path | None:
    path = directory.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _modules(directory: Path) -> Iterator[str]:
    for file in directory.rglob("*.py"):
        parts = file.relative_to(directory).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that a module's statements bind, including those in its `if` and `try` blocks."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.If(body=inner, orelse=other):
                yield from _defined([*inner, *other])
            case ast.Try(body=inner, handlers=handlers, orelse=other, finalbody=last):
                yield from _defined([*inner, *(s for handler in handlers for s in handler.body), *other, *last])
            case ast.With(body=inner):
                yield from _defined(inner)
            case _:
                continue
