"""`python -m sublet.pipeline`, with the arguments of `sublet pipeline`: what a cluster's entry point calls."""

from sublet.pipeline.command import main

raise SystemExit(main())
