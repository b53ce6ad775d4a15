"""Names stacks: each application and each pipeline has its own, so that a second one does not replace the first."""

from __future__ import annotations

import hashlib
import re

PIPELINE = "pipeline-"


def consumer_stack(application: str) -> str:
    """Returns an application's stack name, with a digest if it would look like a pipeline's."""
    return f"sublet-{_as_stack_name(application, taken=application.startswith(PIPELINE))}"


def pipeline_stack(name: str) -> str:
    return f"sublet-{PIPELINE}{_as_stack_name(name)}"


def _as_stack_name(name: str, *, taken: bool = False) -> str:
    """Returns a name as CloudFormation allows it, with letters, digits and hyphens. A digest keeps names with other
    characters, or a `taken` one, distinct."""
    plain = re.sub(r"[^A-Za-z0-9-]", "-", name)
    return plain if plain == name and not taken else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
