"""What an agent is made with: the options of both faces, and what each means.

Invariant: every option has its rule in `arguments`, which a test holds together. Must not: decide
anything; the decisions are `answering`'s and `conversation`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from sessions_api.providers.base import Provider
    from sessions_api.runs.exchanges import Select
    from sessions_api.runs.tools import Tool
    from sessions_api.state import Persistence
    from state_store import Clock, IdSource, Progress


class AgentOptions(TypedDict, total=False):
    """What an agent is made with, all optional.

    - `provider`: a name ("offline", "openai") or an object that implements `Provider`. Left out,
      a resumed session's own, else the settings', else "offline".
    - `model`, `base_url`, `api_key`: for the provider; the key is never stored.
    - `system_prompt`, `parameters`, `model_config`: of the sessions that this agent creates. In the
      last, `cost` is a price of their own, in USD per million tokens: `{"input": 3, "output": 15,
      "cached_input": 0.3}` (without the last one, cached input costs as much as other input);
      `context_window` is in tokens; the rest, such as `capabilities`, is kept for the caller.
    - `select`: a function that is given the whole exchanges of the history, oldest first, before
      each run and returns those to send, in their order; the new message is always sent. Newest
      ten: `lambda exchanges: exchanges[-10:]`. It changes no stored message, runs in the agent's
      thread, and should depend on its argument alone, which it must not change: it is kept for the
      next run. `SelectionInvalid` for a wrong answer.
    - `tools`: functions or `tool`s that the model may call.
    - `persistence`: "required" (default) raises when the store cannot be used; "best-effort" goes
      on in memory with a line in `notices`; "ephemeral" keeps nothing and touches no disk.
    - `accept_endpoint`: consent to send a history to another origin than it came from.
    - `state_home`: instead of TINYAGENT_STATE_HOME or ~/.tinyagent.
    - `progress`: called with what an upgrade of an older store is at, how much is done, of how
      much; (0, 0) where that cannot be known.
    - `clock`, `new_id`: sources of times and ids, for tests.
    """

    provider: str | Provider | None
    model: str | None
    base_url: str | None
    api_key: str | None
    system_prompt: str | None
    parameters: Mapping[str, Any] | None
    model_config: Mapping[str, Any] | None
    select: Select | None
    tools: Iterable[Tool | Callable[..., Any]]
    persistence: Persistence
    accept_endpoint: bool
    state_home: str | os.PathLike[str] | None
    progress: Progress
    clock: Clock
    new_id: IdSource
