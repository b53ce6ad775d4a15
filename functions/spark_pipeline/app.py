"""The pipeline's entry point on EMR Serverless, which starts a file, not a module. Its arguments are `sublet pipeline`'s."""

from __future__ import annotations

from sublet.pipeline.command import main

raise SystemExit(main())
