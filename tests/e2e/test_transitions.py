"""Each way in which an application moves: process, Lambda, service, removal, deployment again, second application, new
name; and a deployment that fails at each. Under load, nothing is lost.

Spark is in tests/spark/ (there and back).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import EmbeddedAws, embedded_aws
from tests.e2e.test_existing_names import Stacks, table
from tests.e2e.transitions import application
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, explores, pytest.mark.timeout(1800)]

TAKEN = "belongs to no stack"
BROKEN = "{}"
"""The handler's variables without the one that it needs to be imported."""


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with embedded_aws() as aws:
        yield aws


def test_application_moves_from_a_process_to_lambda_to_a_service_and_back(aws: EmbeddedAws, tmp_path: Path) -> None:
    orders = application(aws, "moving", tmp_path / "moving")
    with orders.under_load():
        with orders.process() as process:
            orders.wait_for_handled("process", process.pid)
            tables = orders.tables()
            assert len(tables) == 2

            assert "cannot use its handler" in orders.deploy(code=1, handler_environment=BROKEN)
            assert (orders.status(), orders.tables()) == ("ROLLBACK_COMPLETE", tables)
            orders.wait_for_handled("process", process.pid)

            assert orders.deploy().count(TAKEN) == 2
            assert (orders.tables(), orders.owned()) == (tables, set())
            orders.fleet.split()
        orders.wait_for_handled("stack", process.pid)

        assert "cannot use its handler" in orders.deploy(code=1, handler_environment=BROKEN)
        assert (orders.status(), orders.tables()) == ("UPDATE_ROLLBACK_COMPLETE", tables)
        orders.wait_for_handled("stack", process.pid)

        with orders.process("--no-create") as task:  # what a service's task runs
            orders.wait_for_handled("process", task.pid)
            orders.remove()
            assert orders.tables() == tables
            orders.fleet.merge()
            orders.wait_for_handled("process", task.pid)

            assert orders.deploy().count(TAKEN) == 2
        orders.wait_for_handled("stack", process.pid, task.pid)
    orders.assert_nothing_is_lost()
    assert orders.tables() == tables


def test_lambda_becomes_a_service_of_its_own_stack_and_lambda_again(aws: EmbeddedAws, tmp_path: Path) -> None:
    audit = application(aws, "serving", tmp_path / "serving")
    with audit.under_load():
        audit.deploy()
        tables = audit.tables()
        audit.wait_for_handled("stack")

        variables = audit.deploy_service()
        with audit.task(variables) as task:
            audit.wait_for_handled("process", task.pid)
            audit.remove()
            assert audit.tables() == tables
            audit.wait_for_handled("process", task.pid)

            assert audit.deploy().count(TAKEN) == 2
            audit.remove_service()
            assert audit.tables() == tables
        audit.wait_for_handled("stack", task.pid)
    audit.assert_nothing_is_lost()


def test_stack_lets_go_of_its_tables_is_removed_and_finds_them_again(aws: EmbeddedAws, tmp_path: Path) -> None:
    owner = application(aws, "owning", tmp_path / "owning")
    with owner.under_load():
        assert TAKEN not in owner.deploy()
        tables = owner.tables()
        assert owner.owned() == set(tables)
        owner.wait_for_handled("stack")

        assert TAKEN not in owner.deploy(batch_size="50")
        assert owner.owned() == set(tables), "a stack must not be told of its own tables: it would let go of them"

        owner.deploy(existing_lease_table="true", existing_sightings_table="true")
        assert (owner.tables(), owner.owned()) == (tables, set())
        owner.wait_for_handled("stack")

        assert owner.deploy(batch_size="60").count(TAKEN) == 2
        owner.remove()
        assert owner.tables() == tables

        assert owner.deploy().count(TAKEN) == 2
        owner.wait_for_handled("stack")
    owner.assert_nothing_is_lost()


def test_stack_changes_to_an_express_state_machine_and_back(aws: EmbeddedAws, tmp_path: Path) -> None:
    orders = application(aws, "express", tmp_path / "express")
    with orders.under_load():
        orders.deploy(mode="catch_up")
        orders.wait_for_handled("stack")
        orders.deploy(mode="catch_up", state_machine_type="express")
        assert machines(aws, "express") == {"express-express-workers": "EXPRESS"}
        orders.wait_for_handled("stack")
        orders.deploy(mode="catch_up")
        assert machines(aws, "express") == {"express-lease-workers": "STANDARD"}
        orders.wait_for_handled("stack")
    orders.assert_nothing_is_lost()


def machines(aws: EmbeddedAws, application: str) -> dict[str, str]:
    """The types of an application's state machines."""
    found = aws.client("stepfunctions").list_state_machines()["stateMachines"]
    return {each["name"]: each["type"] for each in found if each["name"].startswith(f"{application}-")}


def test_second_application_and_one_under_a_new_name_read_the_same_stream(aws: EmbeddedAws, tmp_path: Path) -> None:
    first = application(aws, "named", tmp_path / "first")
    second = application(aws, "named-too", tmp_path / "second", "named")
    renamed = application(aws, "renamed", tmp_path / "renamed", "named")
    with first.under_load():
        first.deploy()
        second.deploy()
        first.wait_for_handled("stack")
        second.wait_for_handled("stack")

        first.command("pause")
        renamed.deploy(start_position="LATEST")
        renamed.fleet.tick()
        renamed.command("seek", "--like", first.name, "--stream", "named", "--execute", "--confirm", renamed.name)
        renamed.wait_for_handled("stack")
        first.remove()
    put = first.fleet.put
    second.fleet.put = put
    second.assert_nothing_is_lost()
    handled = {each.text for each in first.fleet.recorder.deliveries()}
    renamed.assert_all_is_handled([text for text in put if text not in handled])


def test_second_region_has_its_own_tables_and_dashboard(aws: EmbeddedAws, tmp_path: Path) -> None:
    here = application(aws, "regional", tmp_path / "here")
    there = application(aws.in_region("eu-west-1"), "regional", tmp_path / "there")
    with here.under_load(), there.under_load():
        here.deploy(monitoring="full")
        assert "regional-sublet-eu-west-1-lambda" in there.deploy(monitoring="full")
        here.wait_for_handled("stack")
        there.wait_for_handled("stack")
        assert dashboards(aws) == {"regional-sublet", "regional-sublet-eu-west-1-lambda"}

        here.remove()
        assert "the stack keeps monitoring=full" in there.deploy(batch_size="50")
        assert dashboards(aws) == {"regional-sublet-eu-west-1-lambda"}, "what is deployed keeps its name"
        assert "monitoring=lean, since the stack is new" in here.deploy()
        assert dashboards(aws) == {"regional-sublet-eu-west-1-lambda"}, "a new stack is lean"
        here.wait_for_handled("stack")
        there.wait_for_handled("stack")
    here.assert_nothing_is_lost()
    there.assert_nothing_is_lost()


def dashboards(aws: EmbeddedAws) -> set[str]:
    """Those of the application `regional`, in all regions."""
    found = aws.client("cloudwatch").list_dashboards(DashboardNamePrefix="regional")["DashboardEntries"]
    return {each["DashboardName"] for each in found}


def test_a_table_of_another_stack_is_refused_before_anything_is_deployed(aws: EmbeddedAws, tmp_path: Path) -> None:
    theirs = application(aws, "theirs", tmp_path / "theirs")
    assert Stacks(aws).create("their-stack", It=table(theirs.name)) == "CREATE_COMPLETE"
    said = theirs.deploy(code=2)
    assert "existing_lease_table" in said
    assert "their-stack" in said
