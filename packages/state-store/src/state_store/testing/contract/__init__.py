"""What every store promises, by theme; see `state_store.protocol.SessionStore` for the words."""

from state_store.testing.contract.basis import Contract, OpenStore
from state_store.testing.contract.branches import BranchesContract
from state_store.testing.contract.checking import CheckingContract
from state_store.testing.contract.concurrency import ConcurrencyContract
from state_store.testing.contract.crash import CrashContract
from state_store.testing.contract.durability import DurableStoreContract
from state_store.testing.contract.export import ExportContract
from state_store.testing.contract.import_refusals import ImportRefusalsContract
from state_store.testing.contract.importing import ImportingContract
from state_store.testing.contract.lifecycle import LifecycleContract
from state_store.testing.contract.paging import PagingContract
from state_store.testing.contract.processes import NewAddress
from state_store.testing.contract.runs import RunsContract
from state_store.testing.contract.searching import SearchContract
from state_store.testing.contract.sessions import SessionsContract
from state_store.testing.contract.states import StatesContract
from state_store.testing.contract.summaries import SummariesContract
from state_store.testing.contract.text import TextContract
from state_store.testing.contract.tools import ToolsContract
from state_store.testing.contract.totals import TotalsContract
from state_store.testing.contract.undoing import UndoingContract

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
    BranchesContract,
    UndoingContract,
    SummariesContract,
    ImportingContract,
    ImportRefusalsContract,
    TotalsContract,
    CheckingContract,
    SearchContract,
    LifecycleContract,
):
    """Everything that a store promises while it is open. Give it the fixture `open_store`."""
