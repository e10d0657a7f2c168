"""What a run is about: everything that is decided before it begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.runs.tools import Tool
    from state_store import NewSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What a run is about, decided before it begins.

    `create` is set when the session comes into being with this run; `changes` are made to one that
    is there already, when the run begins and not before.
    """

    session_id: str
    run_id: str
    text: str
    provider: str
    endpoint: str | None
    model: str | None
    tools: Mapping[str, Tool] = field(default_factory=dict)
    create: NewSession | None = None
    changes: Mapping[str, object] = field(default_factory=dict)
    auto_title: str | None = None
    retry_of: str | None = None
    allow_unsafe: bool = False
    parts: tuple[Mapping[str, Any], ...] | None = None
    max_request_bytes: int | None = None
