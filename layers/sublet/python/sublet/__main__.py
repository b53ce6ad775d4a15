"""`python -m sublet`."""

from sublet.cli.main import main

raise SystemExit(main())
