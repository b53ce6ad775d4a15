"""`python -m sublet.pipeline`, which is `python -m sublet.spark.pipeline` now."""

from sublet.moved import warn_of_move
from sublet.spark.pipeline.command import main

if __name__ == "__main__":
    warn_of_move("python -m sublet.pipeline", "python -m sublet.spark.pipeline")
    raise SystemExit(main())
