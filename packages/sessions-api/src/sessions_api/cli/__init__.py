"""The `tinyagent` command: sessions, runs, journals and chat from a shell.

`main` is all of it that others may call. The modules behind it hold no SQL and decide nothing
about conversations: they open the SDK, ask it, and print. Data goes to standard output, everything
else to standard error.
"""

from sessions_api.cli.entry import main

__all__ = ["main"]
