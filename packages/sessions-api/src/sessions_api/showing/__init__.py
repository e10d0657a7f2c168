"""Conversations as people read them on a terminal; chat and commands show them alike.

Owns texts, tables and figures for reading. Must not: open anything, or decide what happens next.
"""
