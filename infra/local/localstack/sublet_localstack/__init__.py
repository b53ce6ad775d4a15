"""LocalStack 4.9.2 as a process on this machine, without Docker. Installed into LocalStack's own environment, and run
there."""
