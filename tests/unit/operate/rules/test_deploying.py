"""What `sublet deploy` adopts of what the account has."""

from __future__ import annotations

import pytest
from sublet.errors import SettingsError
from sublet.operate.rules.deploying import Adopted, Found, FoundTable, adopt, table_keys

LEASES, SIGHTINGS = "orders-audit", "orders-audit-sightings"
OWN = "sublet-orders-audit"
MISSING, UNOWNED = FoundTable(exists=False), FoundTable(exists=True)
BOTH = {"existing_lease_table": "true", "existing_sightings_table": "true"}


def found(
    leases: FoundTable = MISSING, sightings: FoundTable = MISSING, own: str | None = None, *, is_taken: bool = False
) -> Found:
    return Found("eu-west-1", {LEASES: leases, SIGHTINGS: sightings}, own, is_taken)


def test_keys_name_the_tables_of_the_application() -> None:
    assert table_keys("orders-audit") == {"existing_lease_table": LEASES, "existing_sightings_table": SIGHTINGS}


def test_nothing_is_adopted_from_an_empty_account() -> None:
    assert adopt("orders-audit", {}, found()) == Adopted({}, ())


def test_tables_of_a_process_are_adopted_and_named() -> None:
    adopted = adopt("orders-audit", {}, found(UNOWNED, UNOWNED))
    assert adopted.context == BOTH
    assert [line.split()[2] for line in adopted.why] == [LEASES, SIGHTINGS]


def test_a_table_of_the_kcl_is_adopted_alone() -> None:
    assert adopt("orders-audit", {}, found(UNOWNED)).context == {"existing_lease_table": "true"}


def test_the_stacks_own_tables_are_not_adopted() -> None:
    """The stack would let go of them."""
    own = FoundTable(exists=True, stack=OWN)
    assert adopt("orders-audit", {}, found(own, own, "orders-audit-sublet", is_taken=True)) == Adopted({}, ())


@pytest.mark.parametrize("stated", ["true", "false"])
def test_deployment_keeps_what_is_stated_of_the_tables(stated: str) -> None:
    context = dict.fromkeys(BOTH, stated)
    theirs = FoundTable(exists=True, stack="orders-service")
    assert adopt("orders-audit", context, found(theirs, UNOWNED)) == Adopted({}, ())


def test_tables_of_another_stack_are_refused_by_its_name() -> None:
    theirs = FoundTable(exists=True, stack="orders-service")
    with pytest.raises(SettingsError, match=r"existing_lease_table.*orders-service"):
        adopt("orders-audit", {}, found(theirs, theirs))
    with pytest.raises(SettingsError, match="existing_sightings_table"):
        adopt("orders-audit", {"existing_lease_table": "true"}, found(theirs, theirs))


def test_a_dashboard_whose_name_is_taken_gets_region_and_runtime() -> None:
    adopted = adopt("orders.audit", {}, found_dotted(is_taken=True))
    assert adopted.context == {"dashboard_name": "orders_audit-sublet-eu-west-1-lambda"}


def found_dotted(*, is_taken: bool) -> Found:
    return Found("eu-west-1", dict.fromkeys(table_keys("orders.audit").values(), MISSING), None, is_taken)


def test_a_deployed_dashboard_keeps_its_name() -> None:
    second = "orders-audit-sublet-eu-west-1-lambda"
    assert adopt("orders-audit", {}, found(own=second, is_taken=True)).context == {"dashboard_name": second}
    assert adopt("orders-audit", {}, found(own=second)).context == {"dashboard_name": second}
    assert adopt("orders-audit", {}, found(own="orders-audit-sublet", is_taken=True)).context == {}


@pytest.mark.parametrize("stated", [{"dashboard_name": "mine"}, {"monitoring": "none"}])
def test_a_stated_dashboard_is_left_alone(stated: dict[str, str]) -> None:
    assert adopt("orders-audit", stated, found(is_taken=True)).context == {}
