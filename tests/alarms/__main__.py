"""`python -m tests.alarms`. Processes that are spawned find nothing of a `__main__`, so that all of it is next door."""

import sys

from tests.alarms.all_of_it import main

if __name__ == "__main__":
    sys.exit(main())
