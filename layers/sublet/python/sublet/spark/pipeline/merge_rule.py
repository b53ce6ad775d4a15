"""How the table `merged` comes to have one row per key: the rule, checked by name, and kept beside the table (pure)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sublet.errors import SettingsError
from sublet.spark.pipeline.merge import is_later, quoted

MERGED = "merged"
DELETED_AT = "deletedAt"
RULE = "_merged.json"
"""The rule's file, where the pipeline's mark is."""

POSITION = (
    "character_length({row}.`sequenceNumber`)",
    "{row}.`sequenceNumber`",
    "{row}.`subSequenceNumber`",
    "{row}.`stream`",
    "{row}.`shardId`",
)
"""A record's position as SQL, to break ties: sequence numbers are decimals without padding, so the longer is larger."""

_UNSUITED = ("struct", "array", "map", "variant", "binary", "boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """The columns `key` identify a row; of its records the one that is latest by the columns `order_by` counts.
    `delete_when`: SQL over the schema's columns."""

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    delete_when: str | None = None

    @property
    def update_if(self) -> str:
        """SQL: whether the source row is later than the table's."""
        return is_later(self._version)

    @property
    def rewrite_if(self) -> str:
        """SQL: whether the source row is later than the table's, or of the same record."""
        return is_later(self._version, or_same=True)

    @property
    def _version(self) -> list[str]:
        own = (f"{{row}}.{quoted(name).replace('{', '{{').replace('}', '}}')}" for name in self.order_by)
        return [*own, *POSITION]

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def add_merge(group: argparse._ArgumentGroup) -> None:
    """Adds the arguments of which `merge_rule` makes a rule."""
    group.add_argument(
        "--merge-key",
        metavar="COLUMNS",
        help="keep a table `merged` with one row for each value of these columns: its latest record (not for parquet)",
    )
    group.add_argument(
        "--order-by", metavar="COLUMNS", help="which record is later: by these columns, and then by its position"
    )
    group.add_argument(
        "--delete-when",
        metavar="SQL",
        help="which record deletes its row, such as \"op = 'D'\": the row stays as a tombstone, with its deletedAt",
    )


def merge_rule(
    key: str | None, order_by: str | None, delete_when: str | None, *, schema: str | None
) -> MergeRule | None:
    """The rule by the settings' texts; None without a key. Raises SettingsError if they do not go together."""
    if key is None:
        for name, given in (("order-by", order_by), ("delete-when", delete_when)):
            if given is not None:
                raise SettingsError(name, given, "needs merge-key: the columns that identify a row")
        return None
    if order_by is None:
        raise SettingsError("order-by", None, "required with merge-key: the column that says which record is later")
    if schema is None:
        raise SettingsError("schema", None, "required with merge-key, whose columns it has")
    if delete_when is not None and not delete_when.strip():
        raise SettingsError("delete-when", delete_when, "a condition in SQL, such as op = 'D'")
    return MergeRule(key=_names("merge-key", key), order_by=_names("order-by", order_by), delete_when=delete_when)


def _names(setting: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len({name.lower() for name in names}) < len(names):
        raise SettingsError(setting, text, "columns of the schema, each once, with commas between them")
    return names


def fitting(rule: MergeRule, schema: Any) -> MergeRule:
    """The rule with the columns as the schema spells them. `schema`: Spark's JSON for it, as a value. Raises
    SettingsError for a column that is not there, may be null, or cannot be compared.
    """
    fields = {field["name"].lower(): field for field in schema["fields"]}
    if DELETED_AT.lower() in fields:
        raise SettingsError("schema", DELETED_AT, f"another name: the table {MERGED} has a column {DELETED_AT}")
    key = tuple(_column("merge-key", name, fields, ("float", "double")) for name in rule.key)
    order_by = tuple(_column("order-by", name, fields) for name in rule.order_by)
    return MergeRule(key=key, order_by=order_by, delete_when=rule.delete_when)


def _column(setting: str, name: str, fields: Any, unsuited: Sequence[str] = ()) -> str:
    field = fields.get(name.lower())
    if field is None:
        raise SettingsError(setting, name, f"a column of the schema: {', '.join(f['name'] for f in fields.values())}")
    kind = field["type"] if isinstance(field["type"], str) else field["type"]["type"]
    if kind in (*_UNSUITED, *unsuited):
        raise SettingsError(setting, name, f"a column of another type: {kind} cannot say which rows belong together")
    if field["nullable"]:
        raise SettingsError(setting, name, "NOT NULL in the schema, so that a record without it is rejected")
    return str(field["name"])


def settled(rule: MergeRule, kept: str | None, *, has_table: bool) -> tuple[MergeRule, bool]:
    """The rule with the columns as the table spells them, and whether it must be written: the table is new. `kept`: the
    text of the rule's file.

    Raises SettingsError if the table was made by another key or order. The condition for deletes may change.
    """
    try:
        value = json.loads(kept or "")
        before = (tuple(value["key"]), tuple(value["order_by"]))
    except (ValueError, KeyError, TypeError):
        if has_table:
            wanted = f"another output: this one has a table {MERGED} that merge-key did not make"
            raise SettingsError("merge-key", ", ".join(rule.key), wanted) from None
        return rule, True
    for setting, ours, theirs in (("merge-key", rule.key, before[0]), ("order-by", rule.order_by, before[1])):
        if [name.lower() for name in ours] != [name.lower() for name in theirs]:
            wanted = f"{', '.join(theirs)}, as the table {MERGED} has it, or another output"
            raise SettingsError(setting, ", ".join(ours), wanted)
    if has_table:
        return replace(rule, key=before[0], order_by=before[1]), False
    return rule, (rule.key, rule.order_by) != before
