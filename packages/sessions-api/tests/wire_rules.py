"""What the rules of all services have in common; each service has a file of its own.

`chat_rules`, `responses_rules` and `messages_rules` take the JSON body of a request and return a
sentence for every rule that it breaks, none for a legal one. The scripted services answer 400 to a
body with problems, and a test that makes up histories can ask without any connection. Rules that
only the services' error messages tell are marked so.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def unsendable(body: Any) -> list[str]:
    """Return what keeps *body* from being sent as JSON at all."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        return [f"the body is no JSON: {type(error).__name__}"]
    return []


def is_legal_tool(tool: Mapping[str, Any]) -> bool:
    """Say whether *tool* has a name, a description and a schema of an object."""
    schema = tool.get("parameters")
    return (
        fits(NAME, tool.get("name"))
        and isinstance(tool.get("description"), str)
        and isinstance(schema, dict)
        and schema.get("type") == "object"
    )


def is_text(value: Any) -> bool:
    """Say whether *value* is text that is not empty."""
    return isinstance(value, str) and bool(value)


def fits(pattern: re.Pattern[str], value: Any) -> bool:
    """Say whether *value* is text that *pattern* matches whole."""
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def is_address(value: Any) -> bool:
    """Say whether *value* is where an image can be, or the image."""
    return isinstance(value, str) and value.startswith(("http:", "https:", "data:"))
