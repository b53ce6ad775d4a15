"""Which JSON fits a schema, as which value, and the reason for the rest: strictly, and without an exception."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.errors import SettingsError
from sublet.payloads.json_document import json_reader
from sublet.spark.pipeline.json_fit import TypeMismatch, _read, fit_of, reader_of
from sublet.spark.pipeline.numerals import Numeral

INT, LONG = "integer", "long"


def struct(**kinds: Any) -> dict[str, Any]:
    """A field whose name ends in `_` may not be null."""
    fields = [
        {"name": name.rstrip("_"), "type": kind, "nullable": not name.endswith("_"), "metadata": {}}
        for name, kind in kinds.items()
    ]
    return {"type": "struct", "fields": fields}


def array(kind: Any, contains_null: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": contains_null}


def mapping(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": False}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", '"x"', "x"),
        ("string", '"\\u00e9"', "é"),
        ("boolean", "true", True),
        ("byte", "-128", -128),
        (INT, "2147483647", 2**31 - 1),
        (LONG, "-9223372036854775808", -(2**63)),
        ("double", "1", 1.0),
        ("double", "-1.5e300", -1.5e300),
        ("double", "0.10000000000000001", 0.1),
        ("double", "0.1000000000000000055511151231257827", 0.1),
        ("double", "123456789012345680000", 1.2345678901234568e20),
        ("double", "9007199254740992.0", 2.0**53),
        ("double", "5e-324", 5e-324),
        ("double", "0e999999999999999999999", 0.0),
        ("float", "0.5", 0.5),
        ("float", "0.1", 0.10000000149011612),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        ("decimal(5,2)", "999.99", Decimal("999.99")),
        ("decimal(5,2)", '"1.5"', Decimal("1.50")),
        ("decimal(5, 2)", "1e2", Decimal("100.00")),
        (
            "decimal(38,18)",
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("date", '"2026-02-28"', date(2026, 2, 28)),
        ("timestamp", '"2026-01-31T08:00:00+02:00"', datetime(2026, 1, 31, 6, tzinfo=UTC)),
        ("timestamp", '"2026-01-31T08:00:00.123456Z"', datetime(2026, 1, 31, 8, 0, 0, 123456, UTC)),
        ("timestamp", '"2026-01-31 08:00:00.123456000+0200"', datetime(2026, 1, 31, 6, 0, 0, 123456, UTC)),
        ("timestamp_ntz", '"2013-01-01T05:15"', datetime(2013, 1, 1, 5, 15)),  # noqa: DTZ001 - it has no zone
        ("binary", '"AP8="', b"\x00\xff"),
        (array(INT), "[1, null]", [1, None]),
        (mapping(INT), '{"a": 1}', [("a", 1)]),
        (struct(b=INT), '{"b": null, "c": 1}', {"b": None}),
    ],
)
def test_json_value_is_read_when_it_fits_its_type(kind: Any, text: str, value: Any) -> None:
    assert reader_of(struct(a=kind))(b'{"a": %s}' % text.encode()) == {"a": value}


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("string", "5", "a: text expected, found 5"),
        ("string", '"\\ud800"', 'a: text without half a surrogate pair expected, found "\\ud800"'),
        ("boolean", "1", "a: true or false expected, found 1"),
        ("byte", "128", "a: a whole number of 8 bits expected, found 128"),
        (INT, "true", "a: a whole number of 32 bits expected, found true"),
        (INT, "1.0", "a: a whole number of 32 bits expected, found 1.0"),
        (INT, '"1"', 'a: a whole number of 32 bits expected, found "1"'),
        ("double", "1e999", "a: a number that 64 bits hold expected, found 1e999"),
        ("double", "1" + "0" * 400, "a: a number that 64 bits hold expected, found 1" + "0" * 58 + "…"),
        ("float", "1e39", "a: a number that 32 bits hold expected, found 1e39"),
        ("decimal(5,2)", "1.234", "a: a number of 5 digits (2 of them decimals) expected, found 1.234"),
        ("decimal(5,2)", "1000", "a: a number of 5 digits (2 of them decimals) expected, found 1000"),
        ("decimal(5,2)", '"NaN"', 'a: a number of 5 digits (2 of them decimals) expected, found "NaN"'),
        ("decimal(5,2)", '"1_0"', 'a: a number of 5 digits (2 of them decimals) expected, found "1_0"'),
        ("double", "9007199254740993", "a: a number that 64 bits hold expected, found 9007199254740993"),
        ("double", "0.12345678901234567890", "a: a number that 64 bits hold expected, found 0.12345678901234567890"),
        ("double", "1e-400", "a: a number that 64 bits hold expected, found 1e-400"),
        ("double", "1e-9999999999999999999", "a: a number that 64 bits hold expected, found 1e-9999999999999999999"),
        ("float", "16777217", "a: a number that 32 bits hold expected, found 16777217"),
        ("float", "1e-60", "a: a number that 32 bits hold expected, found 1e-60"),
        ("string", "1.50", "a: text expected, found 1.50"),
        (
            "decimal(5,2)",
            "1E+99999999999999999999",
            "a: a number of 5 digits (2 of them decimals) expected, found 1E+99999999999999999999",
        ),
        ("string", "[" * 900 + "]" * 900, "a: text expected, found " + "[" * 59 + "…"),
        ("date", '"2026-02-30"', 'a: a date such as 2026-01-31 expected, found "2026-02-30"'),
        ("date", '"2026-W05-1"', 'a: a date such as 2026-01-31 expected, found "2026-W05-1"'),
        (
            "timestamp",
            '"2026-01-31T08:00"',
            'a: a moment such as 2026-01-31T08:00:00Z expected, found "2026-01-31T08:00"',
        ),
        (
            "timestamp",
            '"0001-01-01T00:00:00+05:00"',
            'a: a moment such as 2026-01-31T08:00:00Z expected, found "0001-01-01T00:00:00+05:00"',
        ),
        *(
            ("timestamp", f'"{moment}"', f'a: a moment such as 2026-01-31T08:00:00Z expected, found "{moment}"')
            for moment in (
                "2026-01-31T08:00:00.123456789Z",
                "2026-W05-6T08:00:00Z",
                "20260131T080000Z",
                "2026-01-31x08:00:00Z",
            )
        ),
        (
            "timestamp_ntz",
            '"2026-01-31T08:00Z"',
            'a: a moment such as 2026-01-31T08:00:00 (no zone) expected, found "2026-01-31T08:00Z"',
        ),
        ("binary", '"AP8"', 'a: base64 expected, found "AP8"'),
        (array(INT), '[1, "x"]', 'a[1]: a whole number of 32 bits expected, found "x"'),
        (array(INT, False), "[null]", "a[0]: a value expected, found null"),
        (mapping(INT), '{"k": null}', "a['k']: a value expected, found null"),
        (array(struct(b_=INT)), "[{}]", "a[0].b: a value expected, found null"),
        (struct(b=INT), "[1]", "a: an object expected, found [1]"),
    ],
)
def test_json_value_that_does_not_fit_is_rejected_with_the_reason(kind: Any, text: str, reason: str) -> None:
    assert reader_of(struct(a=kind))(b'{"a": %s}' % text.encode()) == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff", "not UTF-8: invalid start byte at byte 0"),
        (b"", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": 1} x', "not JSON: Extra data: line 1 column 10 (char 9)"),
        (b'{"a": NaN}', "not JSON: NaN is not a JSON number"),
        (b"[" * 100_000, "not JSON that can be read: nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not JSON: Exceeds the limit (4300 digits)"),
        (b"[]", "the record: an object expected, found []"),
        (b"null", "the record: an object expected, found null"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8: invalid start byte at byte 0"),
    ],
)
def test_data_that_is_no_object_of_json(data: bytes, reason: str) -> None:
    found = reader_of(struct(a=INT))(data)
    assert isinstance(found, str)
    assert found.startswith(reason)


def test_a_field_that_must_be_there() -> None:
    read = reader_of(struct(id_=LONG, note="string"))
    assert read(b'{"id": 7}') == {"id": 7, "note": None}
    assert read(b'{"note": "x"}') == "id: a value expected, found null"


@pytest.mark.parametrize("kind", ["interval day to second", "varchar(5)", {"type": "udt"}, None])
def test_a_type_that_json_has_nothing_for_is_refused_with_its_place(kind: Any) -> None:
    with pytest.raises(SettingsError, match=r"schema\.a\[\]"):
        fit_of(struct(a=array(kind)))


def test_a_map_has_text_for_keys() -> None:
    with pytest.raises(SettingsError, match=r"schema\.a .*JSON has no other keys"):
        fit_of(struct(a={"type": "map", "keyType": INT, "valueType": INT, "valueContainsNull": True}))


EVERYTHING = struct(
    a="string",
    b=INT,
    c="double",
    d="decimal(9,2)",
    k="float",
    e="date",
    f="timestamp",
    g="binary",
    h=array(struct(i="byte")),
    j=mapping("string"),
)
_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcdefghjk"), _ANY_JSON))
def test_reader_gives_a_value_or_a_reason_for_any_fields(value: dict[str, Any]) -> None:
    found = reader_of(EVERYTHING)(json.dumps(value).encode())
    assert isinstance(found, (dict, str))
    if isinstance(found, str):
        assert "expected" in found or "not JSON" in found
        found.encode()


@given(st.binary(max_size=60))
def test_reader_gives_a_value_or_a_reason_for_any_bytes(data: bytes) -> None:
    assert isinstance(reader_of(EVERYTHING)(data), (dict, str))


_NUMERAL = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,25})?", fullmatch=True)
_TEXT = st.from_regex(r"[-0-9TZ:. +WeE]{0,35}", fullmatch=True).map(json.dumps)
_NESTED = st.tuples(st.sampled_from([("[", "]"), ('{"a":', "}")]), st.integers(0, 1100), _NUMERAL).map(
    lambda drawn: drawn[0][0] * drawn[1] + drawn[2] + drawn[0][1] * drawn[1]
)
_FIELD = st.tuples(st.sampled_from("abcdefghjkx"), _NUMERAL | _TEXT | _NESTED)


@given(st.lists(_FIELD, max_size=4), st.integers(0, 200))
def test_reader_gives_a_value_or_a_reason_at_any_stack_depth(fields: list[tuple[str, str]], depth: int) -> None:
    """Also in a worker whose stack is deep already."""
    data = "{" + ",".join(f'"{name}":{text}' for name, text in fields) + "}"

    def read(frames: int) -> dict[str, Any] | str:
        return read(frames - 1) if frames else reader_of(EVERYTHING)(data.encode())

    found = read(depth)
    assert isinstance(found, (dict, str))
    assert not isinstance(found, str) or "expected" in found or "not JSON" in found


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([float.__repr__, "{:.17g}".format, "{:.30e}".format, lambda number: str(Decimal(number))]),
)
def test_a_float_fits_however_its_writer_prints_it(number: float, write: Any) -> None:
    assert reader_of(struct(a="double"))(b'{"a": %s}' % write(number).encode()) == {"a": number}


@given(_NUMERAL)
def test_a_number_that_fits_is_the_one_that_was_written(text: str) -> None:
    found = reader_of(struct(a="double", b="decimal(38,10)"))(b'{"a": %s, "b": %s}' % (text.encode(), text.encode()))
    if isinstance(found, dict):
        assert found["b"] == Decimal(text)
        assert float(text) == found["a"]


def test_unexpected_error_becomes_a_rejection_reason() -> None:
    def fails(value: object) -> object:
        raise KeyError(value)

    assert _read(json.loads, fails, b"7") == "cannot be read: KeyError: 7"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            '{"b": [1, -0.10, 1e5, true, null], "é": {"": "\\u0000\\n"}}',
            '{"b":[1,-0.10,1e5,true,null],"é":{"":"\\u0000\\n"}}',
        ),
        ('"x"', '"x"'),
        ("[]", "[]"),
        ("{}", "{}"),
        ('{"a": 1, "a": 2}', '{"a":2}'),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        ("0.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"),
        ("1.7976931348623157e308", "1.7976931348623157e308"),
    ],
)
def test_variant_takes_any_json_as_its_text(text: str, kept: str) -> None:
    assert reader_of(struct(doc="variant"))(f'{{"doc": {text}}}'.encode()) == {"doc": kept}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("123456789012345678901234567890123456789", "doc: a number that VARIANT holds expected"),
        ("0.123456789012345678901234567890123456789", "doc: a number that VARIANT holds expected"),
        ('{"a": [1, 1e400]}', "doc['a'][1]: a number that VARIANT holds expected, found 1e400"),
        ("[1e-400]", "doc[0]: a number that VARIANT holds expected, found 1e-400"),
        ('{"\\ud800": 1}', "doc['\\ud800']: text without half a surrogate pair expected"),
        ("null", "doc: a value expected, found null"),
    ],
)
def test_variant_refuses_what_spark_would_change(text: str, reason: str) -> None:
    assert reader_of(struct(doc_="variant"))(f'{{"doc": {text}}}'.encode()).startswith(reason)


@pytest.mark.parametrize("value", [b"x", float("nan"), Decimal("NaN"), date(2026, 1, 31), {1: "x"}])
def test_variant_refuses_values_that_json_does_not_have(value: object) -> None:
    assert type(fit_of("variant")(value)) is TypeMismatch


def test_variant_takes_floats_and_decimals_of_other_formats() -> None:
    assert fit_of("variant")([0.1, 1e300, Decimal("1.50")]) == "[0.1,1e+300,1.50]"


@pytest.mark.parametrize("kind", [array("variant"), mapping(struct(doc="variant")), array(array("variant"))])
def test_variant_within_an_array_or_map_is_refused(kind: Any) -> None:
    with pytest.raises(SettingsError, match="VARIANT for the whole array or map"):
        fit_of(struct(items=kind))


def test_variant_refuses_a_repeated_key_if_parsing_is_strict() -> None:
    read = reader_of(struct(doc="variant"), json_reader(Numeral, strict=True))
    assert read(b'{"doc": [{"a": 1, "a": 2}]}') == "not JSON: the key 'a' is repeated"
