"""The picker: finding one session among very many, on the whole screen.

`places` is where sessions lie and what is done to them there, `listing` the rows as they come in
and what the filter leaves of them, `mode` what each key means, `screen` the terminal. `Picker` puts
them together. Invariant: nothing waits for all sessions; what is shown says how many there are.
"""

from sessions_api.chat.picker.picking import Picked, Picker

__all__ = ["Picked", "Picker"]
