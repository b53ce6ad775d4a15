"""The embedded AWS: `with embedded_aws() as aws:` runs it, `deploy` deploys the stack to it, `make local` keeps it
running."""

from infra.local.embedded import EmbeddedAws, embedded_aws
from infra.local.server import ServerFailed

__all__ = ["EmbeddedAws", "ServerFailed", "embedded_aws"]
