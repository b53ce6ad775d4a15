"""Names of what `sublet deploy` and the constructs deploy. Each application and each pipeline has its own stack, so
that a second one does not replace the first."""

from __future__ import annotations

import hashlib
import re

PIPELINE = "pipeline-"


def consumer_stack(application: str) -> str:
    """Returns an application's stack name, with a hash if it would look like a pipeline's."""
    return f"sublet-{_as_stack_name(application, taken=application.startswith(PIPELINE))}"


def pipeline_stack(name: str) -> str:
    return f"sublet-{PIPELINE}{_as_stack_name(name)}"


def dashboard(application: str) -> str:
    return f"{application.replace('.', '_')}-sublet"


def second_dashboard(application: str, region: str, runtime: str) -> str:
    """CloudWatch knows a dashboard's name once in an account, in whatever region."""
    return f"{dashboard(application)}-{region}-{runtime}"


def _as_stack_name(name: str, *, taken: bool = False) -> str:
    """Returns a name as CloudFormation allows it, with letters, digits and hyphens. A hash keeps names with other
    characters, or a `taken` one, distinct."""
    plain = re.sub(r"[^A-Za-z0-9-]", "-", name)
    return plain if plain == name and not taken else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
