"""The variables that Kubernetes sets in each container of a namespace for each of its services (enableServiceLinks,
which is on by default). Those of a service that is named sublet, or sublet-console, begin like a setting's.
https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
"""

from __future__ import annotations

import re
from collections.abc import Iterable

HOST = "_SERVICE_HOST"
"""Every service with an address has it; so nothing counts as a link that stands without it."""

OF_A_SERVICE = r"_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"


def service_links(variables: Iterable[str]) -> frozenset[str]:
    """Those of the variables that Kubernetes has set for services."""
    names = list(variables)
    services = [re.escape(name.removesuffix(HOST)) for name in names if name.endswith(HOST)]
    if not services:
        return frozenset()
    link = re.compile(f"({'|'.join(services)})({OF_A_SERVICE})")
    return frozenset(name for name in names if link.fullmatch(name))
