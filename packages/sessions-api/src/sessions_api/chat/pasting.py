"""Long pastes at the prompt: shown as one short label, sent as they are.

Invariant: what is sent has every character of what was pasted, and a label that was typed or
changed by hand is only text. Ten thousand lines in the prompt would be redrawn with each key.
"""

from __future__ import annotations

_MOST_LINES = 8
_MOST_CHARACTERS = 2_000


class Pastes:
    """The long pastes of one chat, by their labels."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def shown(self, pasted: str) -> str:
        """Return what stands at the prompt for *pasted*: itself, or a label."""
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= _MOST_LINES and len(text) <= _MOST_CHARACTERS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        label = f"[Paste {len(self._texts) + 1}: {size}]"
        self._texts[label] = text
        return label

    def whole(self, typed: str) -> str:
        """Return *typed* with the pastes in the places of their labels."""
        parts = [typed]
        for label, text in self._texts.items():  # no label is looked for inside a paste
            parts = [
                piece
                for place, part in enumerate(parts)
                for piece in (_around(part, label, text) if place % 2 == 0 else [part])
            ]
        return "".join(parts)


def _around(typed: str, label: str, text: str) -> list[str]:
    """Return *typed* split at *label*, with *text* between: typed and pasted take turns."""
    first, *others = typed.split(label)
    return [first, *(piece for other in others for piece in (text, other))]
