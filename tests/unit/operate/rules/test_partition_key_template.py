"""A partition key that is made from a record's fields."""

from __future__ import annotations

from typing import Any

import pytest
from sublet.errors import PayloadUnreadable
from sublet.operate.rules.partition_key_template import KeyTemplate


@pytest.mark.parametrize(
    ("template", "value", "key"),
    [
        ("customer-7", None, "customer-7"),
        ("{customer}", {"customer": "ada"}, "ada"),
        ("{order.country}-{order.id}", {"order": {"country": "DE", "id": 7}}, "DE-7"),
        ("{is_test}{price}", {"is_test": True, "price": 1.5}, "true1.5"),
        ("{{customer}}", {"customer": "ada"}, "{customer}"),
    ],
)
def test_fields_stand_in_the_key(template: str, value: Any, key: str) -> None:
    found = KeyTemplate.parse(template)
    assert found.key_of(value) == key
    assert found.has_fields == (value is not None and "{{" not in template)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"id": 7}, "has no field customer"),
        ([1], "has no field customer"),
        ({"customer": None}, "field customer is null"),
        ({"customer": {"id": 7}}, "field customer is an object"),
        ({"customer": [7]}, "field customer is an array"),
    ],
)
def test_a_record_without_the_field_is_refused_with_its_name(value: Any, why: str) -> None:
    with pytest.raises(PayloadUnreadable, match=why):
        KeyTemplate.parse("{customer}").key_of(value)


@pytest.mark.parametrize("text", ["{", "}", "{}", "{a!r}", "{a:>9}", "{a[0]}", "{a..b}"])
def test_template_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        KeyTemplate.parse(text)
