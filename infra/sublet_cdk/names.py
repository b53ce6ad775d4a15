"""Names of stacks: one for each application, so that a second one does not replace the first."""

from __future__ import annotations

import hashlib
import re


def consumer_stack(application: str) -> str:
    return f"sublet-{_as_stack_name(application)}"


def pipeline_stack(name: str) -> str:
    return f"sublet-pipeline-{_as_stack_name(name)}"


def _as_stack_name(name: str) -> str:
    """CloudFormation takes letters, digits and hyphens. A name with others keeps apart from its neighbours by a digest."""
    plain = re.sub(r"[^A-Za-z0-9-]", "-", name)
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
