"""The lease worker's entry point: one window over one worker item. Deployed beside the user's own modules."""

from __future__ import annotations

from sublet.runtimes.serverless import lease_worker

lambda_handler = lease_worker()
