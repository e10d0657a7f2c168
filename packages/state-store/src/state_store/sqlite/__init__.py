"""The SQLite engine. Nothing outside this folder knows SQL, and nothing in Python opens its files.

The database file, its -wal and its -shm belong to SQLite alone: a process that opens and closes
one of them by itself drops the locks its own connection holds on it.
"""
