"""A page that follows runs while they train: served to this machine alone, its numbers read anew at each look."""

from __future__ import annotations

import errno
import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Lock
from typing import Any
from urllib.parse import parse_qs

from searnn.reports.page.report import page
from searnn.types import SearnnError

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
MOST = 32  # connections that are attended to at a time, with a thread each
PATIENCE = 5.0  # seconds for a request to come whole, and for its answer to be taken
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest is in the page itself
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
}


class Follower(ThreadingHTTPServer):
    """Serves the page at `/` and its data at `/data.json`; `make` gives the data as it is now.

    Only who knows `token`, which is new for each server, gets an answer. Where connections are too many, the one
    whose request has been awaited longest is closed for the next.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, make: Callable[[], Mapping[str, Any]], port: int = 0) -> None:
        self.make = make
        self.token = secrets.token_urlsafe(32)
        self._places = BoundedSemaphore(MOST)
        self._awaited: dict[socket.socket, float] = {}  # connections without a whole request, oldest first: since when
        self._lock = Lock()  # of them
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                taken = "is taken" if error.errno == errno.EADDRINUSE else "is not for everyone"
                raise SearnnError(f"--port {port} {taken}: give another one, or 0 for any that is free") from None
            raise

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Attend to a connection in a thread, as soon as there is a place for it."""
        if not self._places.acquire(blocking=False):
            with self._lock:
                self._close(next(iter(self._awaited), None))
            self._places.acquire()
        with self._lock:
            self._awaited[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except Exception:  # without a thread nobody else gives the place back
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """What the thread does."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def service_actions(self) -> None:
        """Now and then: close what sends its request too slowly, however little at a time."""
        with self._lock:
            for request, since in self._awaited.items():
                if time.monotonic() - since > PATIENCE:
                    self._close(request)

    def arrived(self, request: socket.socket) -> None:
        """A request is whole, or its connection at its end."""
        with self._lock:
            self._awaited.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        """The end of a connection."""
        self.arrived(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no error."""

    def _close(self, request: socket.socket | None) -> None:
        """End a connection, whose thread then ends by itself."""
        with suppress(OSError):  # it may have ended meanwhile
            if request is not None:
                request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Follower
    server_version = "searnn"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answer one look."""
        self.server.arrived(self.connection)
        path, _, query = self.path.partition("?")
        # A page from elsewhere could reach this machine by a name of its own; it is not what was opened here.
        if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in NAMES:
            return self._answer(403, "text/plain", f"open the address that begins with http://{HOST}: instead")
        given = parse_qs(query).get("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self.server.token.encode()):
            told = "the token in the address is missing or wrong: open the address that searnn report printed"
            return self._answer(403, "text/plain", told)
        if path not in ("/", "/data.json"):
            return self._answer(404, "text/plain", "there is nothing here")
        try:
            data = self.server.make()
        except SearnnError as error:
            return self._answer(500, "text/plain", str(error))
        if path == "/":
            return self._answer(200, "text/html", page(data))
        return self._answer(200, "application/json", json.dumps(data, allow_nan=False))

    def end_headers(self) -> None:
        """What every answer has."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
