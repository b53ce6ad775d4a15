"""README's settings table, made from the Settings class itself. `python docs/settings_table.py` writes it into README.md."""

from __future__ import annotations

import ast
import inspect
from dataclasses import MISSING, fields
from pathlib import Path

from sublet.settings import Settings, setting_text

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- settings -->", "<!-- /settings -->"


def table() -> str:
    """A row a setting: its name, its default as text in the environment, and its reason."""
    reasons = _reasons()
    rows = ["| setting | default | why |", "|---|---|---|"]
    for field in fields(Settings):
        if field.default is MISSING:
            default = "required"
        else:
            text = "" if field.default is None else setting_text(field.default)
            default = f"`{text}`" if text else "none"
        rows.append(f"| `{field.name}` | {default} | {reasons[field.name]} |")
    return "\n".join(rows)


def _reasons() -> dict[str, str]:
    """The string below each field of the class, on one line."""
    (settings,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(settings, ast.ClassDef)
    body = settings.body
    reasons = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            match following:
                case ast.Expr(value=ast.Constant(value=str(reason))):
                    reasons[statement.target.id] = " ".join(reason.split())
    return reasons


def with_table(readme: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
