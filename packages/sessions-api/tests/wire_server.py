"""A chat-completions service on 127.0.0.1 that says what a script tells it to, over real HTTP.

Owns the wire format as a service speaks it: whole answers, server-sent events, errors, broken
connections, nonsense. Invariant: one request takes one `Turn` off the script; what was asked is
kept in `requests` exactly as it came. A body that breaks a rule of the format is answered with
400, whatever the script says, and told in `problems`. Error bodies repeat the caller's key on
purpose, as real services do, so that a test can see whether it leaks.

Tests of this package get one from the fixture `wire`; a test that needs it in another process
runs this file: `python wire_server.py --script turns.json`, a JSON list of objects with the
fields of `Turn`. It prints the base URL, then one JSON line a request, and stops with its input.
Source: OpenAI API reference, "Create chat completion" and its streaming events.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import struct
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from chat_rules import openai_chat_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_ARGUMENTS_PIECE = 5  # characters of a call's arguments in one event


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the service does with one request.

    `message` adds fields to the assistant message (or to the first delta), such as
    "reasoning_content"; a tool call is {"id", "name", "arguments"} and whatever else. `usage` is
    sent as it is; in a stream only when the request asked for it.

    `status` other than 200 answers with an error. `raw` replaces the body, `chunks` the events of
    a stream. `drop` breaks the connection: before the response, or after half of it.
    `ends_early` ends a stream in good order but without a finish reason. `pause_s` passes before
    the response, or before each event of a stream.
    """

    text: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    message: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = None
    finish_reason: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: str | None = None
    chunks: Sequence[Any] | None = None
    drop: Literal["before", "inside"] | None = None
    ends_early: bool = False
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came: header names in lower case, the body decoded from JSON."""

    path: str
    headers: Mapping[str, str]
    body: Any


class WireServer:
    """The service. Use it as a context manager; `requests` are in order of arrival.

    `hung_up` is set once a client has gone away in the middle of a response. Connections are kept
    alive, so that a client that forgets to close shows in `wait_until_left`.
    """

    def __init__(
        self,
        *turns: Turn,
        on_request: Callable[[Asked], None] | None = None,
    ) -> None:
        self._turns = deque(turns)
        self._on_request = on_request
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.wire = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.requests: list[Asked] = []
        self.problems: list[str] = []
        self.closing = threading.Event()
        self.hung_up = threading.Event()
        self._connections: set[socket.socket] = set()
        self._connections_changed = threading.Condition()

    @property
    def base_url(self) -> str:
        """Where clients should be pointed."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def script(self, *turns: Turn) -> None:
        """Add turns to the end of the script."""
        self._turns.extend(turns)

    def take(self, asked: Asked) -> Turn:
        """Keep a request and return what to do with it."""
        self.requests.append(asked)
        if self._on_request is not None:
            self._on_request(asked)
        if problems := self.problems_in(asked.body):
            self.problems += problems
            return Turn(status=400, raw=json.dumps({"error": {"message": "; ".join(problems)}}))
        if not self._turns:
            return Turn(status=400, raw='{"error": {"message": "the script has no more turns"}}')
        return self._turns.popleft()

    def problems_in(self, body: Any) -> list[str]:
        """Return the rules that a request breaks."""
        return openai_chat_problems(body)

    def whole(self, turn: Turn) -> str:
        """Return the JSON text that answers a request which asks for no stream."""
        return json.dumps(completion(turn))

    def events(self, turn: Turn, body: Any) -> list[str]:
        """Return the events of a stream, each as its text on the wire."""
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        events = [json.dumps(chunk) for chunk in chunks(turn, wants_usage=wants_usage)]
        end = [] if turn.ends_early else ["[DONE]"]
        return [f"data: {event}\n\n" for event in [*events, *end]]

    def failure(self, turn: Turn, key: str) -> Any:
        """Return what an error answers to a caller with *key*."""
        return _error(turn, key)

    def wait_until_left(self, timeout_s: float) -> bool:
        """Wait until no connection is open; say whether that came about."""
        with self._connections_changed:
            return self._connections_changed.wait_for(lambda: not self._connections, timeout_s)

    def opened(self, connection: socket.socket) -> None:
        """Note a connection that a handler serves."""
        with self._connections_changed:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Note that its handler is done with it."""
        with self._connections_changed:
            self._connections.discard(connection)
            self._connections_changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.closing.set()
        self._http.shutdown()
        with self._connections_changed:
            for connection in self._connections:
                # Wakes a handler that waits for the next request; it may be gone already.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()  # waits for the handlers
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    wire: WireServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        if isinstance(sys.exception(), ConnectionError | TimeoutError):
            self.wire.hung_up.set()
        else:
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10
    disable_nagle_algorithm = True  # or a second answer on a connection waits 40 ms
    server: _Http

    def setup(self) -> None:
        super().setup()
        self.server.wire.opened(self.connection)

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.server.wire.closed(self.connection)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        turn = self.server.wire.take(Asked(path=self.path, headers=headers, body=body))
        streaming = bool(body.get("stream"))
        if turn.drop == "before":
            self._pause(turn)
            self._break_off()
        elif turn.status != 200 or turn.raw is not None or not streaming:
            self._pause(turn)
            self._send_whole(turn, streaming=streaming)
        else:
            self._send_events(turn, self.server.wire.events(turn, body))

    def _send_whole(self, turn: Turn, *, streaming: bool) -> None:
        if turn.raw is not None:
            text = turn.raw
        elif turn.status != 200:
            key = self.headers.get("x-api-key", self.headers.get("authorization", ""))
            text = json.dumps(self.server.wire.failure(turn, key))
        else:
            text = self.server.wire.whole(turn)
        content = text.encode("utf-8", "surrogateescape")  # "\udcff" stands for the byte FF
        kind = "text/event-stream" if streaming and turn.status == 200 else "application/json"
        self.send_response_only(turn.status)
        self._send_headers({"Content-Type": kind, "Content-Length": str(len(content))}, turn)
        if turn.drop == "inside":
            self.wfile.write(content[: len(content) // 2])
            self._break_off()
        else:
            self.wfile.write(content)

    def _send_events(self, turn: Turn, events: list[str]) -> None:
        self.send_response_only(200)
        self._send_headers(
            {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}, turn
        )
        if turn.drop == "inside":
            events = events[: len(events) // 2]
        for event in events:
            self._pause(turn)
            if self.server.wire.closing.is_set():
                self.close_connection = True
                return
            content = event.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
            self.wfile.flush()
        if turn.drop == "inside":
            self._break_off()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _send_headers(self, headers: Mapping[str, str], turn: Turn) -> None:
        own = {"Date": self.date_time_string(), "X-Request-Id": "scripted-id"}
        for name, value in {**headers, **own, **turn.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _pause(self, turn: Turn) -> None:
        if turn.pause_s:
            self.server.wire.closing.wait(turn.pause_s)

    def _break_off(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        # With a linger time of 0 the close is a reset, which no client takes for a good end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as inherited
        pass


def completion(turn: Turn) -> dict[str, Any]:
    """Return the turn as a whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text, **turn.message}
    if turn.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in turn.tool_calls]
    payload: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": _finish_reason(turn)}],
    }
    if turn.usage is not None:
        payload["usage"] = turn.usage
    return payload


def chunks(turn: Turn, *, wants_usage: bool) -> Iterator[Any]:
    """Yield the turn as chunks of a stream: its words, then pieces of the calls' arguments."""
    if turn.chunks is not None:
        yield from turn.chunks
        return
    yield _chunk({"role": "assistant", "content": None if turn.tool_calls else "", **turn.message})
    for word in re.findall(r"\s*\S+|\s+$", turn.text or ""):
        yield _chunk({"content": word})
    yield from map(_chunk, _call_deltas(turn))
    if turn.ends_early:
        return
    yield _chunk({}, finish_reason=_finish_reason(turn))
    if wants_usage and turn.usage is not None:
        yield {**_chunk({}), "choices": [], "usage": turn.usage}


def _call_deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(turn.tool_calls):
        opening = _tool_call({**call, "arguments": ""})
        yield {"tool_calls": [{"index": index, **opening}]}
    texts = [str(call["arguments"]) for call in turn.tool_calls]
    for start in range(0, max(map(len, texts), default=0), _ARGUMENTS_PIECE):
        for index, text in enumerate(texts):
            if piece := text[start : start + _ARGUMENTS_PIECE]:
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    others = {key: value for key, value in call.items() if key not in {"name", "arguments"}}
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"type": "function", "function": function, **others}


def _finish_reason(turn: Turn) -> str:
    return turn.finish_reason or ("tool_calls" if turn.tool_calls else "stop")


def _error(turn: Turn, authorization: str) -> dict[str, Any]:
    message = f"The scripted error {turn.status}; you sent {authorization}"
    return {"error": {"message": message, "type": "scripted", "param": None, "code": "scripted"}}


def main() -> None:
    """Serve a script until standard input ends."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--script", type=Path, required=True, help="a JSON list of turns")
    turns = [Turn(**turn) for turn in json.loads(parser.parse_args().script.read_text("utf-8"))]

    def show(asked: Asked) -> None:
        line = {"path": asked.path, "headers": dict(asked.headers), "body": asked.body}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    with WireServer(*turns, on_request=show) as server:
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
