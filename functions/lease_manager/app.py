"""The lease manager's entry point: one tick per event, from the schedule or from a prompt."""

from __future__ import annotations

from sublet.runtimes.serverless import lease_manager

lambda_handler = lease_manager()
