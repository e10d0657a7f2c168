"""The SQLite engine. Nothing outside this folder knows SQL, and nothing in Python opens its files.

The database file, its -wal and its -shm belong to SQLite alone: a process that opens and closes
one of them by itself drops the locks its own connection holds on it.
"""

import sys

if sys.platform == "win32":
    raise ImportError("state_store needs flock, which Windows lacks; use Linux, macOS or WSL.")
