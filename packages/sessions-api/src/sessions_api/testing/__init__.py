"""A kit for testing agents: a provider that plays a script. Nothing here needs a network."""

from sessions_api.testing.scripted import AsyncScriptedProvider, ScriptedProvider

__all__ = ["AsyncScriptedProvider", "ScriptedProvider"]
