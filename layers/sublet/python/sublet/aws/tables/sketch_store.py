"""The SketchStore port: eleven items of the sightings table, whose keys begin with "hot". A role can be limited to
these.

One item says which shard has which place, and each place is an item of its own. Ticks ignore all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sublet.aws.faults import CONDITION_FAILED, code_of
from sublet.aws.tables.sightings import DATA, KEY, ROUND, WHAT
from sublet.aws.tables.table_errors import named_table_errors
from sublet.decisions.load.sketch import ShardSketch
from sublet.decisions.load.sketch_json import decode_sketch, encode_sketch
from sublet.decisions.load.sketch_places import (
    KEYS_BEGIN_WITH,
    SketchPlace,
    decode_places,
    encode_places,
    placed,
    together,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

HOT = KEYS_BEGIN_WITH
"""The item with the places; place 3 is "hot 3"."""

TRIES = 3
"""How often an owner tries. Ten owners may write at the same time; one that fails every time drops this sketch."""


class DynamoDbSketchStore:
    """The SketchStore port. Each use calls `connect` for the client: most workers never make it."""

    def __init__(self, connect: Callable[[], DynamoDBClient], table: str, *, with_names: bool = False) -> None:
        self._connect, self._table, self._with_names = connect, table, with_names

    def keep(self, sketch: ShardSketch) -> bool:
        for _ in range(TRIES):
            places, seen_round = self._places()
            found = placed(places, sketch, sketch.until)
            if found is None:
                return False
            place, all_places = found
            if self._take(all_places, seen_round):
                stored = together(self._at(place.number), sketch)
                data = {"B": encode_sketch(stored, with_names=self._with_names)}
                with self._named_errors():
                    self._connect().put_item(
                        TableName=self._table, Item={KEY: {"S": f"{HOT} {place.number}"}, DATA: data}
                    )
                return True
        return False

    def sketches(self) -> tuple[ShardSketch, ...]:
        places, _ = self._places()
        read = (self._at(place.number) for place in places)
        return tuple(sketch for sketch in read if sketch is not None)

    def _places(self) -> tuple[tuple[SketchPlace, ...], int]:
        """The places, and the round in which they were written; 0 if they never were."""
        item = self._item(HOT)
        return decode_places(_data(item)), int(item.get(ROUND, {}).get("N", 0))

    def _at(self, number: int) -> ShardSketch | None:
        return decode_sketch(_data(self._item(f"{HOT} {number}")))

    def _item(self, key: str) -> Any:
        with self._named_errors():
            reply = self._connect().get_item(TableName=self._table, Key={KEY: {"S": key}}, ConsistentRead=True)
        return reply.get("Item", {})

    def _take(self, places: tuple[SketchPlace, ...], seen_round: int) -> bool:
        """Write the places, unless another owner has written them since."""
        item: dict[str, Any] = {
            KEY: {"S": HOT},
            DATA: {"B": encode_places(places)},
            ROUND: {"N": str(seen_round + 1)},
        }
        values: dict[str, Any] = {"ExpressionAttributeValues": {":round": {"N": str(seen_round)}}} if seen_round else {}
        try:
            with self._named_errors():
                self._connect().put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression="#round = :round" if seen_round else "attribute_not_exists(#round)",
                    ExpressionAttributeNames={"#round": ROUND},
                    **values,
                )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def _named_errors(self) -> Any:
        return named_table_errors(WHAT, self._table, KEY)


def _data(item: Any) -> bytes:
    return bytes(item.get(DATA, {}).get("B", b""))
