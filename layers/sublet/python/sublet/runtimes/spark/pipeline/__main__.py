"""`python -m sublet.runtimes.spark.pipeline`, with the arguments of `sublet pipeline`: what a cluster's entry point calls."""

from sublet.runtimes.spark.pipeline.command import main

raise SystemExit(main())
