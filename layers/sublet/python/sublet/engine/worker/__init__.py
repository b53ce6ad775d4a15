"""The lease worker: a window over a few leases."""
