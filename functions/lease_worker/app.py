"""The lease worker's entry point: one window for one worker item. Deployed next to the user's modules."""

from __future__ import annotations

from sublet.runtimes.serverless import lease_worker

lambda_handler = lease_worker()
