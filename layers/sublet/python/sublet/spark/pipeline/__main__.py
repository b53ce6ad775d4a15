"""`python -m sublet.spark.pipeline`, with the arguments of `sublet pipeline`: for a cluster's entry point."""

from sublet.spark.pipeline.command import main

raise SystemExit(main())
