"""The reader of a query that is refused: its first call raises the reason."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from sublet.errors import SubletError
from sublet.spark.plain_errors import plainly


class RefusedReader(DataSourceStreamReader):
    """Every method raises the same error. `latestOffset` has Spark 4.0's signature, which later releases accept too."""

    def __init__(self, refusal: SubletError) -> None:
        self._refusal = refusal

    @plainly
    def initialOffset(self) -> NoReturn:  # noqa: N802
        raise self._refusal

    @plainly
    def latestOffset(self) -> NoReturn:  # noqa: N802
        raise self._refusal

    @plainly
    def partitions(self, *_: Any) -> NoReturn:
        raise self._refusal

    @plainly
    def read(self, *_: Any) -> NoReturn:
        raise self._refusal
