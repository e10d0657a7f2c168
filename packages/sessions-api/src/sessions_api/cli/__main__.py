"""`python -m sessions_api.cli` is `tinyagent`."""

import sys

from sessions_api.cli.entry import main

sys.exit(main())
