"""Whether what is stored, what was told and what would be sent agree with one another.

Invariant: reads only. What the database says about itself is asked of the store, what a journal
says about itself of `run_journal`; here the two are compared, and the words are for people.
"""
