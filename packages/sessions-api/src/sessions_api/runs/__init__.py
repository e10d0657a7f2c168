"""One run, from the user's message to its end.

`machine` decides which step comes next, `recorder` commits it and `story` tells the journal;
`drive_sync` and `drive_async` ask the provider and let `working` call the `tools`; `replay` is what
a provider is sent. Nothing here is public by its path: `sessions_api` exports what callers need.
"""
