"""The contract of a store as tests: what any engine has to pass, through either face.

`SessionStoreContract` holds what every store promises, `DurableStoreContract` what one that can be
opened again promises on top. An engine subclasses them in its own tests and gives the fixture
`open_store`; a store with `await` is put behind a `SyncFace`, so that the same tests run over it.

`ConcurrencyContract` and `CrashContract` are about many processes, and about processes that are
killed. For them an engine gives the fixture `new_address`: how any process opens it, as text (see
`StoreAddress`). They run a sample; `Scale` says how to ask for more.

Needs pytest, and is the only part of this package that does: `import state_store` never comes
here.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.contract")

from state_store.testing.address import StoreAddress  # noqa: E402 - after the line above
from state_store.testing.clocks import SteppingClock  # noqa: E402 - the same
from state_store.testing.contract import (  # noqa: E402 - the same
    ConcurrencyContract,
    CrashContract,
    DurableStoreContract,
    NewAddress,
    OpenStore,
    SessionStoreContract,
)
from state_store.testing.faces import SyncFace  # noqa: E402 - the same
from state_store.testing.own_process import JobFailed  # noqa: E402 - the same
from state_store.testing.scale import Scale  # noqa: E402 - the same

__all__ = [
    "ConcurrencyContract",
    "CrashContract",
    "DurableStoreContract",
    "JobFailed",
    "NewAddress",
    "OpenStore",
    "Scale",
    "SessionStoreContract",
    "SteppingClock",
    "StoreAddress",
    "SyncFace",
]
