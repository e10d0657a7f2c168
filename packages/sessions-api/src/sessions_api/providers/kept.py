"""What a service wants back with its own message, as the text that is stored with that message.

Owns `provider_data`. Invariants: what was packed comes out with every value, order and unknown
field as it came; it comes out only for the provider, endpoint and model that it came from, because
signatures and encrypted reasoning are refused by any other, in the REQUEST alone: the stored text
is not changed.

Must not: know what the fields mean.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessions_api.providers.answer_reading import AnswerMalformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelMessage


def pack(provider: str, *, endpoint: str, model: str, **fields: Any) -> str:
    """Return *fields* as JSON text; AnswerMalformed for a number that JSON cannot carry back."""
    try:
        # ASCII, so that even half a surrogate pair survives a store that insists on UTF-8.
        return json.dumps(
            {provider: {"endpoint": endpoint, "model": model, **fields}}, allow_nan=False
        )
    except ValueError:
        raise AnswerMalformed("a number in it is not finite") from None


def unpack(provider: str, message: ModelMessage, *, endpoint: str, model: str) -> Mapping[str, Any]:
    """Return what was packed with *message*; nothing if that is another's, or damaged."""
    if message.provider_data is None:
        return {}
    try:
        data = json.loads(message.provider_data)
    except ValueError:
        return {}  # another provider's, in a form of its own
    kept = data.get(provider) if isinstance(data, dict) else None
    if not isinstance(kept, dict):
        return {}
    return kept if (kept.get("endpoint"), kept.get("model")) == (endpoint, model) else {}
