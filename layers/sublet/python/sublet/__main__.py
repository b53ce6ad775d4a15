"""`python -m sublet`."""

from sublet.runtimes.command_line import main

raise SystemExit(main())
