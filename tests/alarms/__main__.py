"""`python -m tests.alarms`. Everything is in another module, because spawned processes cannot import from a
`__main__`."""

import sys

from tests.alarms.all_of_it import main

if __name__ == "__main__":
    sys.exit(main())
