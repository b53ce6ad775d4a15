"""`sublet.operate.cli.main`, under its path of 0.2."""

from sublet.moved import forwarded

__getattr__ = forwarded(__name__, "sublet.operate.cli.main")
