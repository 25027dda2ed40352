"""A page that follows runs while they train: served to this machine alone, its numbers read anew at each look."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from searnn.reports.page.report import page
from searnn.types import SearnnError

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")


class Follower(ThreadingHTTPServer):
    """Serves the page at `/` and its data at `/data.json`; `make` gives the data as it is now."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, make: Callable[[], Mapping[str, Any]], port: int = 0) -> None:
        self.make = make
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
        return f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: Follower
    server_version = "searnn"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one look."""
        # A page from elsewhere could reach this machine by a name of its own; it is not what was opened here.
        if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in NAMES:
            return self._answer(403, "text/plain", f"open http://{HOST}:{self.server.server_port}/ instead")
        path = self.path.partition("?")[0]
        if path not in ("/", "/data.json"):
            return self._answer(404, "text/plain", "there is nothing here")
        try:
            data = self.server.make()
        except SearnnError as error:
            return self._answer(500, "text/plain", str(error))
        if path == "/":
            return self._answer(200, "text/html", page(data))
        return self._answer(200, "application/json", json.dumps(data, allow_nan=False))

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)
