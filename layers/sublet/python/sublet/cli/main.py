"""`sublet.operate.cli.main`, under its path of 0.2."""

from typing import TYPE_CHECKING

from sublet.moved import forwarded

if TYPE_CHECKING:
    from sublet.operate.cli.main import *
else:
    __getattr__ = forwarded(__name__, "sublet.operate.cli.main")
