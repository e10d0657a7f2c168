"""Chat: a conversation on a terminal or through a pipe, and how a session is shown to people.

`loop.Chat` is the conversation; it takes an agent and streams. The other modules turn records
into text that is safe to print, and are what the command line shows too. Nothing is imported
here, so that a command which only lists sessions stays light.
"""
