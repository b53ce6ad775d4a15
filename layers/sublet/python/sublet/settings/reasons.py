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
    return texts_below_fields(value.Settings)


def texts_below_fields(of: type) -> Mapping[str, str]:
    """The text below each field of a class, on one line. Empty without the source."""
    try:
        module = ast.parse(inspect.getsource(of))
    except OSError:
        return {}
    (definition,) = (node for node in module.body if isinstance(node, ast.ClassDef))
    found = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found
