"""What `sublet deploy` adopts of what the account has."""

from __future__ import annotations

import pytest
from sublet.errors import SettingsError
from sublet.operate.rules.deploying import Found, FoundTable, adopt, monitoring_of, table_keys

LEASES, SIGHTINGS = "orders-audit", "orders-audit-sightings"
OWN = "sublet-orders-audit"
MISSING, UNOWNED = FoundTable(exists=False), FoundTable(exists=True)
BOTH = {"existing_lease_table": "true", "existing_sightings_table": "true"}


FULL = {"monitoring": "full"}


def found(
    leases: FoundTable = MISSING,
    sightings: FoundTable = MISSING,
    own: str | None = None,
    *,
    is_taken: bool = False,
    monitoring: str | None = "full",
) -> Found:
    return Found("eu-west-1", {LEASES: leases, SIGHTINGS: sightings}, own, is_taken, monitoring)


def test_keys_name_the_tables_of_the_application() -> None:
    assert table_keys("orders-audit") == {"existing_lease_table": LEASES, "existing_sightings_table": SIGHTINGS}


def test_nothing_is_adopted_from_an_empty_account() -> None:
    assert adopt("orders-audit", {}, found(monitoring=None)).context == {"monitoring": "lean"}


@pytest.mark.parametrize(
    ("types", "level"),
    [
        ((), None),
        (("AWS::Lambda::Function", "AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard"), "full"),
        (("AWS::Lambda::Function", "AWS::CloudWatch::Alarm"), "lean"),
        (("AWS::Lambda::Function",), "none"),
    ],
)
def test_level_of_a_stack_is_known_by_its_resources(types: tuple[str, ...], level: str | None) -> None:
    assert monitoring_of(types) == level


@pytest.mark.parametrize("level", ["full", "lean", "none"])
def test_stack_that_exists_keeps_its_monitoring_until_another_is_stated(level: str) -> None:
    adopted = adopt("orders-audit", {}, found(monitoring=level))
    assert adopted.context == {"monitoring": level}
    assert [f"monitoring={level}" in line for line in adopted.why] == [True]
    for stated in ("full", "lean", "none"):
        assert adopt("orders-audit", {"monitoring": stated}, found(monitoring=level)).context == {}


def test_new_stack_is_lean_unless_another_level_is_stated() -> None:
    assert adopt("orders-audit", {}, found(monitoring=None)).context == {"monitoring": "lean"}
    assert adopt("orders-audit", FULL, found(monitoring=None)).context == {}
    assert adopt("orders-audit", {"dashboard_name": "mine"}, found(monitoring=None)).context == FULL


def test_tables_of_a_process_are_adopted_and_named() -> None:
    adopted = adopt("orders-audit", FULL, found(UNOWNED, UNOWNED))
    assert adopted.context == BOTH
    assert [line.split()[2] for line in adopted.why] == [LEASES, SIGHTINGS]


def test_a_table_of_the_kcl_is_adopted_alone() -> None:
    assert adopt("orders-audit", FULL, found(UNOWNED)).context == {"existing_lease_table": "true"}


def test_the_stacks_own_tables_are_not_adopted() -> None:
    """The stack would let go of them."""
    own = FoundTable(exists=True, stack=OWN)
    assert adopt("orders-audit", {}, found(own, own, "orders-audit-sublet", is_taken=True)).context == FULL


@pytest.mark.parametrize("stated", ["true", "false"])
def test_deployment_keeps_what_is_stated_of_the_tables(stated: str) -> None:
    context = dict.fromkeys(BOTH, stated)
    theirs = FoundTable(exists=True, stack="orders-service")
    assert adopt("orders-audit", context, found(theirs, UNOWNED)).context == FULL


def test_tables_of_another_stack_are_refused_by_its_name() -> None:
    theirs = FoundTable(exists=True, stack="orders-service")
    with pytest.raises(SettingsError, match=r"existing_lease_table.*orders-service"):
        adopt("orders-audit", {}, found(theirs, theirs))
    with pytest.raises(SettingsError, match="existing_sightings_table"):
        adopt("orders-audit", {"existing_lease_table": "true"}, found(theirs, theirs))


def test_a_dashboard_whose_name_is_taken_gets_region_and_runtime() -> None:
    adopted = adopt("orders.audit", FULL, found_dotted(is_taken=True))
    assert adopted.context == {"dashboard_name": "orders_audit-sublet-eu-west-1-lambda"}


def found_dotted(*, is_taken: bool) -> Found:
    return Found("eu-west-1", dict.fromkeys(table_keys("orders.audit").values(), MISSING), None, is_taken)


def test_a_deployed_dashboard_keeps_its_name() -> None:
    second = "orders-audit-sublet-eu-west-1-lambda"
    assert adopt("orders-audit", {}, found(own=second, is_taken=True)).context == {**FULL, "dashboard_name": second}
    assert adopt("orders-audit", FULL, found(own=second)).context == {"dashboard_name": second}
    assert adopt("orders-audit", FULL, found(own="orders-audit-sublet", is_taken=True)).context == {}


@pytest.mark.parametrize("stated", [{**FULL, "dashboard_name": "mine"}, {"monitoring": "none"}])
def test_a_stated_dashboard_is_left_alone(stated: dict[str, str]) -> None:
    assert adopt("orders-audit", stated, found(is_taken=True)).context == {}
