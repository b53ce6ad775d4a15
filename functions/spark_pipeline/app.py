"""The pipeline's entry point on EMR Serverless, which starts a file, not a module. Takes the arguments of `sublet
pipeline`.
"""

from __future__ import annotations

from sublet.spark.pipeline.command import main

raise SystemExit(main())
