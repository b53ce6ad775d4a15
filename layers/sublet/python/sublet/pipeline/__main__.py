"""`python -m sublet.pipeline`, with the arguments of `sublet pipeline`: for a cluster's entry point."""

from sublet.pipeline.command import main

raise SystemExit(main())
