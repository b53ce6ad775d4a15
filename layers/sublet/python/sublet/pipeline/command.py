"""`sublet.spark.pipeline.command`, under its path of 0.2, which a job's entry point may import."""

from typing import TYPE_CHECKING

from sublet.moved import forwarded

if TYPE_CHECKING:
    from sublet.spark.pipeline.command import *
else:
    __getattr__ = forwarded(__name__, "sublet.spark.pipeline.command")
