"""Who may read a served page, and what too many and too slow connections come to."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from report_cases import records, write_run

from searnn.reports.page import read_run, report, serving
from searnn.reports.page.serving import MOST, Follower

PATIENCE = 0.5


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setattr(serving, "PATIENCE", PATIENCE)
    monkeypatch.setattr(serving._Handler, "timeout", PATIENCE)
    run = write_run(tmp_path / "live", records(3))
    with Follower(lambda: report([read_run(run)], follow="serve")) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def answer(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as got:
            assert got.headers["Referrer-Policy"] == "no-referrer"
            assert got.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def connect(server: Follower) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=10)


def wait(until: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_only_who_has_the_address_gets_an_answer(follower: Follower) -> None:
    assert len(follower.token) >= 32
    with Follower(dict) as other:
        assert other.token != follower.token
    for path in ("/", "/data.json", "/nothing"):
        right = follower.address.replace("/?", f"{path}?")
        assert answer(right)[0] == (404 if path == "/nothing" else 200)
        for wrong in ("", "?", "?token=", "?token=%ff", right[right.index("?") : -1], f"?token={'x' * 43}"):
            status, text = answer(right.partition("?")[0] + wrong)
            assert (status, text.count("\n")) == (403, 0)
            assert "token" in text
            assert follower.token not in text
        for host in ("evil.example", "127.0.0.1.evil.example", ""):  # though the token is right
            assert answer(right, Host=host)[0] == 403
        assert answer(right, Host=f"localhost:{follower.server_port}")[0] == (404 if path == "/nothing" else 200)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"], ids=["nothing", "a part"])
def test_eleven_hundred_half_open_connections(follower: Follower, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3000:
        pytest.skip("too few files may be open at once")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    monkeypatch.setattr(serving, "PATIENCE", 600.0)  # none is closed for its slowness
    monkeypatch.setattr(serving._Handler, "timeout", 600.0)
    before, most = threading.active_count(), 0
    try:
        with ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(connect(follower)).sendall(sent)
                most = max(most, threading.active_count() - before)
            begun = time.monotonic()
            for _ in range(5):
                assert answer(follower.address)[0] == 200
            assert time.monotonic() - begun < 5
            most = max(most, threading.active_count() - before)
        assert MOST // 2 < most <= MOST
        wait(lambda: threading.active_count() == before)  # closed by the other side, they are gone
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_request_that_comes_too_slowly_is_given_up(follower: Follower) -> None:
    with connect(follower) as slow:
        begun, ended = time.monotonic(), False
        while not ended and time.monotonic() - begun < 10:
            try:
                slow.sendall(b"G")  # so the time between two bytes is always short
                slow.settimeout(0.05)
                ended = slow.recv(100) == b""
            except TimeoutError:
                pass
            except OSError:
                ended = True
        assert ended
        assert PATIENCE / 2 < time.monotonic() - begun < 5
    with connect(follower) as silent:
        assert silent.recv(100) == b""
    assert answer(follower.address)[0] == 200


def test_an_answer_that_is_not_taken_is_given_up(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "page", lambda data: "x" * 50_000_000)
    before = threading.active_count()
    with connect(follower) as lazy:
        target = follower.address.partition(str(follower.server_port))[2]
        lazy.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        wait(lambda: threading.active_count() == before + 1)
        wait(lambda: threading.active_count() == before)


def test_a_reader_is_not_closed_while_the_runs_are_read(follower: Follower) -> None:
    """However long that takes, and however many come meanwhile."""
    make, entered = follower.make, threading.Event()

    def slowly() -> object:
        entered.set()
        time.sleep(3 * PATIENCE)
        return make()

    follower.make = slowly  # type: ignore[assignment]
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.append(answer(follower.address)[0]))
    reader.start()
    assert entered.wait(5)
    with ExitStack() as stack:
        for _ in range(3 * MOST):
            stack.enter_context(connect(follower))
        reader.join(20)
    assert found == [200]
