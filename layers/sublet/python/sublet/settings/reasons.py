"""Each setting's reason, parsed from the text below its field. For documents and help; too slow for cold starts."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache

from sublet.settings import value


@cache
def reasons() -> Mapping[str, str]:
    """Reasons by setting name, each on one line. Empty if sublet is installed without its source."""
    try:
        module = ast.parse(inspect.getsource(value))
    except OSError:
        return {}
    (settings,) = (node for node in module.body if isinstance(node, ast.ClassDef))
    found = {}
    for statement, following in zip(settings.body, settings.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found
