"""The embedded AWS: `with embedded_aws() as aws:` runs it, `deploy` puts the stack on it, `make local` keeps it up."""

from infra.local.embedded import EmbeddedAws, embedded_aws
from infra.local.server import ServerFailed

__all__ = ["EmbeddedAws", "ServerFailed", "embedded_aws"]
