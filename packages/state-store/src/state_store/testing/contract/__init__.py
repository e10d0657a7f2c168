"""What every store promises, by theme; see `state_store.protocol.SessionStore` for the words."""

from state_store.testing.contract.basis import Contract, OpenStore
from state_store.testing.contract.concurrency import ConcurrencyContract
from state_store.testing.contract.crash import CrashContract
from state_store.testing.contract.durability import DurableStoreContract
from state_store.testing.contract.export import ExportContract
from state_store.testing.contract.lifecycle import LifecycleContract
from state_store.testing.contract.paging import PagingContract
from state_store.testing.contract.processes import NewAddress
from state_store.testing.contract.runs import RunsContract
from state_store.testing.contract.sessions import SessionsContract
from state_store.testing.contract.states import StatesContract
from state_store.testing.contract.text import TextContract
from state_store.testing.contract.tools import ToolsContract

__all__ = [
    "ConcurrencyContract",
    "Contract",
    "CrashContract",
    "DurableStoreContract",
    "NewAddress",
    "OpenStore",
    "SessionStoreContract",
]


class SessionStoreContract(
    SessionsContract,
    RunsContract,
    ToolsContract,
    PagingContract,
    StatesContract,
    TextContract,
    ExportContract,
    LifecycleContract,
):
    """Everything that a store promises while it is open. Give it the fixture `open_store`."""
