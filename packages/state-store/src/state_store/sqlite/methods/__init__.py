"""The store's methods by subject, each one transaction; `SqliteStore` is all of them.

Each class stands on `basis.StoreBasis` and needs none of the others. What a method means is written
in `state_store.protocol`; the SQL is in the modules of the tables, one folder up.
"""
