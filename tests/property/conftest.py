"""The same examples on every run and no deadline, so that a slow machine or a lucky draw changes nothing.

To look further: `make test PYTEST_ARGS="tests/property --hypothesis-profile=explore"` (prints how to repeat a failure).
"""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("repeatable")
