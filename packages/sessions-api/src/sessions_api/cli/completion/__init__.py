"""Completion in bash, zsh and fish: what the shell is given, and what it is answered.

Start reading at `answering`. Invariant: pressing Tab changes nothing, prints nothing beside the
line, and waits for nobody; whatever goes wrong, the answer is that there is nothing to complete.
"""
