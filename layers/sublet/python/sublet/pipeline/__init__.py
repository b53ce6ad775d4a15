"""`sublet.spark.pipeline`, under its path of 0.2."""

from typing import TYPE_CHECKING

from sublet.moved import forwarded

if TYPE_CHECKING:
    from sublet.spark.pipeline import *
else:
    __getattr__ = forwarded(__name__, "sublet.spark.pipeline")
