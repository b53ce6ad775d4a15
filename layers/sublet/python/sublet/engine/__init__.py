"""The two loops: the lease manager's tick and the lease worker's window. Look, decide, act, through ports only."""
