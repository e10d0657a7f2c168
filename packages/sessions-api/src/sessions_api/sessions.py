"""`agent.sessions`: what there is in a workspace, what was said in it, and what is done with it.

Owns the meaning of the methods, over the store and not around it; the asynchronous face is a list
of declarations. Invariant: the active session is the one that `run` goes on with; whatever is asked
of "no reference" is asked of it. The journal is told after the commit. None needs a provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessions_api.arguments import View, checked
from sessions_api.branches import BranchMethods
from sessions_api.errors import ArgumentInvalid
from sessions_api.loaded import LoadedState
from sessions_api.runs.replay import context
from sessions_api.transfer.exporting import ExportFormat, export_all, export_session
from state_store import (
    Deleted,
    Hit,
    Message,
    NewSession,
    Page,
    Progress,
    Run,
    SearchOrder,
    Session,
    SessionState,
    SessionSummary,
    ToolExecution,
    Totals,
    silent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import timedelta

    from sessions_api.transfer.importing import CheckedSource, ImportedSessions
    from sessions_api.transfer.source_lines import Source
    from sessions_api.verifying.report import Report


@checked
class Sessions(BranchMethods):
    """The sessions of one workspace. Thread-safe where the store is; does not cross a fork.

    A method that writes returns after its commit, which survives process kill and power loss; one
    that raises wrote nothing. A *ref* is "latest", a whole id, its last digits (4 or more) or an
    exact title, and None the active session; ReferenceNotFound, ReferenceAmbiguous or
    NoActiveSession otherwise. What is returned is a copy that nothing changes later.
    """

    def create(
        self,
        title: str | None = None,
        *,
        system_prompt: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        model_config: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """Create an empty session and make it active. What is left out comes from the agent."""
        defaults = self._defaults
        session = self._store.create_session(
            NewSession(
                title=title,
                title_source="auto" if title is None else "user",
                provider=defaults.provider,
                endpoint=defaults.endpoint,
                model_id=defaults.model_id,
                model_config=defaults.model_config if model_config is None else model_config,
                system_prompt=defaults.system_prompt if system_prompt is None else system_prompt,
                parameters=defaults.parameters if parameters is None else parameters,
                metadata=metadata,
            )
        )
        if self._story is not None:
            self._story.created(session)
        return self._active.enter(session)

    def resume(self, ref: str = "latest") -> Session:
        """Make the session that *ref* names active: "latest", id, last digits, or exact title.

        ReferenceNotFound or ReferenceAmbiguous otherwise; the active session then stays. Needs no
        provider: where that of the session cannot be used any more, `notices` says so.
        """
        session = self.get(ref)
        self._active.enter(session)
        if (line := self._obstacle(session)) is not None:
            self._state.notices += (line,)
        if self._story is not None:
            self._story.resumed(session)
        return session

    def leave(self) -> None:
        """Make no session active, so that the next run starts a new one.

        The session that was active is closed and the time it took is booked, if a run used it.
        """
        self._active.leave()

    def used(self, session_id: str) -> Session:
        """Make the session that a run has begun in active and return it. Runs call this."""
        return self._active.use(session_id)

    def changed(self, session_id: str) -> None:
        """Take over how a run left its session, if that is still active. Runs call this."""
        self._active.refresh(session_id)

    def list(
        self, limit: int | None = 20, cursor: str | None = None, *, archived: bool = False
    ) -> Page[SessionSummary]:
        """List sessions, newest activity first, at most *limit*; None means all.

        Costs the same however many messages there are. CursorInvalid for a foreign cursor.
        """
        return self._store.list(limit=limit, cursor=cursor, archived=archived)

    def get(self, ref: str | None = None) -> Session:
        """Return the session that *ref* names, or the active one."""
        return self._store.get_session(self._id_of(ref))

    def messages(
        self,
        ref: str | None = None,
        *,
        view: View = "original",
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Return messages in order of seq, at most *limit*; None means all.

        "original": every original, those of failed runs included, those of undone runs not.
        "context": those that would be sent to the provider now, before any selection, in the order
        of the request. "all": everything stored, undone and summarised too.

        A context is whole or none: an undo between two pages would make them of two conversations,
        and a page that ends between a call and its result can be sent to nobody. So *limit* and
        *cursor* are ArgumentInvalid with it; to send less, see `Agent(select=…)`. CursorInvalid for
        a cursor of another listing.
        """
        session_id = self._id_of(ref)
        if view != "context":
            return self._store.messages(session_id, view=view, limit=limit, cursor=cursor)
        for name, given in (("limit", limit), ("cursor", cursor)):
            if given is not None:
                raise ArgumentInvalid(name, wanted="left out with view='context', which is whole")
        then = self._store.snapshot(
            session_id
        )  # first: a run that ends meanwhile is left out whole
        stored = self._store.messages(session_id, view="all").items
        return Page(items=context(stored, then.runs, then.executions))

    def runs(
        self, ref: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[Run]:
        """Return the runs in the order they began, at most *limit*; `stale` marks dead ones."""
        return self._store.runs(self._id_of(ref), limit=limit, cursor=cursor)

    def tool_executions(self, ref: str | None = None) -> tuple[ToolExecution, ...]:
        """Return what became of each tool call, in call order."""
        return self._store.tool_executions(self._id_of(ref))

    def delete(self, ref: str) -> Deleted:
        """Delete a session for good: rows and journal; a tombstone without content stays.

        SessionBusy while a live process runs it. A journal that cannot be removed then stays and is
        named in the agent's `notices`.
        """
        session_id = self._id_of(ref)
        deleted = self._state.delete(session_id)
        self._active.forget(session_id)
        return deleted

    def rename(self, ref: str, title: str) -> Session:
        """Give the session a title, which no automatic one replaces."""
        session = self._store.update_session(self._id_of(ref), {"title": title})
        if self._story is not None:
            self._story.renamed(session)
        return self._active.seen(session)

    def show_reasoning(self, shown: bool, *, ref: str | None = None) -> Session:  # noqa: FBT001 - it is all that is said
        """Note whether people are shown the model's reasoning in the session."""
        session_id = self._id_of(ref)
        return self._active.seen(self._store.update_session(session_id, {"show_reasoning": shown}))

    def archive(self, ref: str) -> Session:
        """Take the session out of the usual list."""
        return self._archive(ref, archived=True)

    def unarchive(self, ref: str) -> Session:
        """Put an archived session back into the usual list."""
        return self._archive(ref, archived=False)

    def search(
        self,
        query: str,
        limit: int | None = 20,
        cursor: str | None = None,
        *,
        order: SearchOrder = "newest",
        ref: str | None = None,
        archived: bool | None = None,
    ) -> Page[Hit]:
        """Find titles and messages with all words of *query*, at most *limit*; None means all.

        In every session of the workspace, or in *ref*'s alone; archived ones or not, None is both.
        Results of tools are found too, undone turns are not. Case and accents do not count, "words
        in quotes" stand together, the last word may be the beginning of one. Titles come first,
        then messages, newest first or by "relevance". CursorInvalid for a cursor of another search.
        """
        return self._store.search(
            query,
            limit=limit,
            cursor=cursor,
            order=order,
            session_id=None if ref is None else self._id_of(ref),
            archived=archived,
        )

    def totals(self, ref: str | None = None) -> Totals:
        """Add up what the session's own runs used, in tokens and USD, whole and by model.

        Failed and undone runs have used what they used; one under way is not counted yet. What a
        fork has inherited stands apart, in no sum. `unreported_count` says of how many runs the
        sums lack something.
        """
        return self._store.totals(self._id_of(ref))

    def workspace_totals(self) -> Totals:
        """Add up what all runs of the workspace used, each once, however often it was copied.

        The usage of a deleted session goes with it; its forks keep their own.
        """
        return self._store.totals()

    def export(
        self,
        ref: str | None = None,
        format: ExportFormat = "jsonl",  # noqa: A002 - the contract's name
        *,
        redact: bool | None = None,
    ) -> Iterator[bytes]:
        """Stream a session as it is now, whatever happens to it while somebody reads.

        "jsonl": the originals, a message a line, for other programs. "archive": everything, to be
        imported again. "markdown" and "html": to read. With *redact* secrets are masked where they
        are found; None means that for html alone. Of messages a page is in memory at a time.
        SessionNotFound while reading when somebody deletes the session meanwhile.
        """
        return export_session(
            self._store,
            self._id_of(ref),
            format_name=format,
            redact=redact,
            secrets=self._secrets,
            database=self._database_name,
        )

    def export_all(self, *, redact: bool | None = None) -> Iterator[bytes]:
        """Stream one archive of every session of the workspace, archived ones too.

        Each is as it is when its turn comes. SessionNotFound when one is deleted before that.
        """
        name = self._database_name
        return export_all(self._store, redact=redact, secrets=self._secrets, database=name)

    @property
    def _database_name(self) -> str:
        paths = self._state.paths
        return "in memory" if paths is None else str(paths.database)

    def import_(
        self, source: Source | CheckedSource, *, progress: Progress = silent
    ) -> ImportedSessions:
        """Import an archive or messages as JSON lines and return the sessions, in their order.

        *source* is a path, bytes, a binary file or an iterable of bytes; its form is recognised by
        its content. Everything is checked before anything is written: ImportInvalid names the line.
        Then each session is one transaction; what is there already is not made again, so that an
        import that was cut off is healed by doing it again. `outcomes` of the list says of each
        session "new", "already_there" or "renamed". *progress* is told bytes read, of how many.
        """
        from sessions_api.transfer import importing  # noqa: PLC0415 - for an import alone

        with importing.checked(source, progress=progress) as found:
            outcomes = []
            for one in found.import_into(self._store, progress=progress):
                outcomes.append(one)
                if self._story is not None and one.outcome != "already_there":
                    self._story.created(one.session)
        return importing.ImportedSessions(outcomes)

    def save(self, state: SessionState, duration: timedelta) -> Session:
        """Create the session of *state*, or update its settings and append what is new.

        The stored originals must be the beginning of *state*'s messages: HistoryConflict otherwise.
        *duration* replaces the stored one. The `runtime` of a loaded state is not looked at.
        """
        session = self._store.save(state, duration)
        self._state.tell_recovered()
        return self._active.seen(session)

    def load(self, ref: str | None = None, runtime: Mapping[str, Any] | None = None) -> LoadedState:
        """Return a session's settings and originals as one value, with *runtime* beside them.

        *runtime* is what the caller goes on with: endpoint, headers, keys. It comes back in the
        field of that name, in no setting, and is never stored.
        """
        state = self._store.load(self._id_of(ref))
        return LoadedState(
            id=state.id,
            settings=state.settings,
            messages=state.messages,
            created_at=state.created_at,
            runtime=dict(runtime or {}),
        )

    def verify(self, ref: str | None = None) -> Report:
        """Check a session: its rows, its calls against results, its journal, and that against runs.

        Reads only, also while others work. What is wrong is a finding and no error; StoreDamaged
        where the session cannot be read at all. What a text says is checked by its length alone.
        """
        from sessions_api.verifying.verify import verify_session  # noqa: PLC0415 - seldom needed

        return verify_session(self._state, self._id_of(ref))

    def verify_all(self, *, progress: Progress = silent) -> Report:
        """Check the whole database, every session, archived ones too, and every journal.

        As `verify`; *progress* is told how far it is.
        """
        from sessions_api.verifying.verify import verify_workspace  # noqa: PLC0415 - seldom needed

        return verify_workspace(self._state, progress=progress)

    def _archive(self, ref: str, *, archived: bool) -> Session:
        session = self._store.archive_session(self._id_of(ref), archived=archived)
        if self._story is not None:
            self._story.archived(session)
        return self._active.seen(session)
