"""Runs cfn-lint over every template that this process's tests have written, and over the example's. `make explore` runs
all of tests/infra in one process for it.

Each resource is checked once. Most templates differ from others in a property or two, and cfn-lint takes a second or
two for each. So similar ones are merged, and a resource that differs gets a name of its own beside the first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sublet_cdk.app import stack_of

from infra.app import EXAMPLE
from tests.exploring import explores
from tests.infra.apps import SYNTHESIZED, an_app
from tests.infra.conftest import STREAM_ARN

pytestmark = pytest.mark.slow

NOTES = {
    "E3019": "templates are laid together here, so a name that each of them gives its own table stands there several "
    "times",
    "W3045": "CDK's own bucket of access logs is written to by ACL, as the service's log delivery asks",
    "W3005": "CDK writes down what a resource depends on also where a Ref says so already: it does no harm",
}
"""Findings caused by the merging and by CDK's own style, by rule."""

PLACEHOLDER = re.compile(r"'(vpc|p)-(12345|67890)' ")
"""Ids of networks that CDK inserts instead of a look-up without an account (E1151, E3031)."""

RESOURCES_MAX = 450
"""In one template; CloudFormation allows 500."""

Template = dict[str, Any]


@explores
@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="one worker has written a part of the templates")
@pytest.mark.timeout(600)
def test_cfn_lint_finds_nothing_in_any_template() -> None:
    example = {"stream_arn": STREAM_ARN, "sublet:cli-credentials": "true"}
    app = an_app(context=example)
    stack_of(app, EXAMPLE)
    app.synth()
    written = [path.read_text() for path in sorted(SYNTHESIZED.rglob("*.template.json"))]
    assert written
    found = [match for template in laid_together(written) for match in problems(template)]
    wrong = [each for each in found if each[0] not in NOTES and not PLACEHOLDER.search(each[1])]
    assert not wrong, "\n".join(map(str, wrong))


def test_linting_templates_together_finds_the_fault_of_one() -> None:
    queue: Template = {"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": 1}}
    wrong: Template = {"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": 901, "Delay": 1}}
    alike = {"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": 2}, "DependsOn": ["Queue"]}
    texts = [
        json.dumps({"Resources": {"Queue": queue, "Other": alike}}),
        json.dumps({"Resources": {"Queue": wrong}}),
    ]
    (laid,) = laid_together(texts)
    assert list(laid["Resources"]) == ["Queue", "Other", "QueueX2"]
    assert {rule for rule, _, where in problems(laid) if where.startswith("Resources/QueueX2")} == {
        "E3002",
        "E3034",
    }


def problems(template: Template) -> Iterator[tuple[str, str, str]]:
    """Rule, message and place."""
    from cfnlint import lint
    from cfnlint.config import ManualArgs

    for match in lint(json.dumps(template), config=ManualArgs(regions=["eu-central-1"])):
        yield match.rule.id, match.message, "/".join(map(str, match.path or ()))


def laid_together(texts: Iterable[str]) -> list[Template]:
    """One template for all in which each name has the same type; more if they differ, or if one would be too large."""
    made: list[Template] = []
    for template in map(_plain, dict.fromkeys(map(_without_hashes, texts))):
        room = next((each for each in made if _fits(each, template)), None)
        if room is None:
            made.append(room := {"Resources": {}})
        for name, resource in template.pop("Resources").items():
            _add(room["Resources"], name, resource)
        for section, content in template.items():
            room.setdefault(section, {}).update(content)
    return made


def _without_hashes(text: str) -> str:
    """Hashes of assets, and in the deployment check's name, differ from template to template and do not matter."""
    text = re.sub(r"[0-9a-f]{64}", "0" * 64, text)
    return re.sub(r"(HandlerCanBeImported[0-9A-F]{8})[0-9a-f]{16}", r"\1", text)


def _plain(text: str) -> Template:
    template: Template = json.loads(text)
    for resource in template.setdefault("Resources", {}).values():
        resource.pop("Metadata", None)
    return {name: content for name, content in template.items() if isinstance(content, dict)}


def _fits(room: Template, template: Template) -> bool:
    there = room["Resources"]
    same = all(there.get(name, each)["Type"] == each["Type"] for name, each in template["Resources"].items())
    return same and len(there) + len(template["Resources"]) <= RESOURCES_MAX


def _add(there: Template, name: str, resource: Template) -> None:
    """Under its name, or the next free variant of it, unless the same resource exists already."""
    number = 1
    while (taken := name if number == 1 else f"{name}X{number}") in there:
        if there[taken] == resource:
            return
        number += 1
    there[taken] = resource


def test_apps_of_all_infra_tests_are_linted() -> None:
    """Except those that refuse, or check what is staged."""
    folder = Path(__file__).parent
    others = {path.name for path in folder.glob("test_*.py") if re.search(r"(?<![\w.])App\(", path.read_text())}
    assert others <= {"test_bytecode.py", "test_cfn_lint.py", "test_library.py", "test_policy_sizes.py"}
