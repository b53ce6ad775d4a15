"""`sublet.testing.memory`, under its path of 0.2."""

from typing import TYPE_CHECKING

from sublet.moved import forwarded

if TYPE_CHECKING:
    from sublet.testing.memory import *
else:
    __getattr__ = forwarded(__name__, "sublet.testing.memory")
