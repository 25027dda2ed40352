"""`searnn report --serve` and `--watch`: pages that follow a run."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_cases import data_of, records, write_run

from searnn.cli import main
from searnn.reports.page import following, read_run, report
from searnn.reports.page.serving import Follower
from searnn.types import SearnnError


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[tuple[Follower, Path]]:
    run = write_run(tmp_path / "live", records(3))
    with Follower(lambda: report([read_run(run)], follow="serve")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server, run
        server.shutdown()


def get(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_served_page_follows_the_run(follower: tuple[Follower, Path]) -> None:
    server, run = follower
    assert server.server_address[0] == "127.0.0.1"  # nobody else's machine
    status, text = get(server.address)
    assert (status, data_of(text)["follow"]) == (200, "serve")
    assert "connect-src 'self'" in text
    data = server.address.replace("/?", "/data.json?")
    assert len(json.loads(get(data)[1])["runs"][0]["columns"]["step"]) == 3
    write_run(run, records(4))
    assert len(json.loads(get(data)[1])["runs"][0]["columns"]["step"]) == 4
    assert get(server.address.replace("/?", "/../../etc/passwd?"))[0] == 404
    assert get(server.address, Host="evil.example")[0] == 403
    (run / "config.toml").write_text("= 3")
    status, text = get(data)
    assert status == 500
    assert "is not a TOML file" in text


def test_a_port_that_is_taken(follower: tuple[Follower, Path]) -> None:
    server, _ = follower
    with pytest.raises(SearnnError, match=rf"--port {server.server_port} is taken"):
        Follower(dict, server.server_port)


def test_serving_ends_by_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(server: Follower) -> None:
        assert get_data(server)["follow"] == "serve"
        raise KeyboardInterrupt

    def get_data(server: Follower) -> Any:
        return server.make()

    monkeypatch.setattr(Follower, "serve_forever", interrupted)
    assert main(["report", str(write_run(tmp_path / "run", records())), "--serve", "--port", "0"]) == 0
    assert re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43} ", capsys.readouterr().out)


def test_watching_writes_the_page_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out = write_run(tmp_path / "run", records(3)), tmp_path / "page.html"
    seen: list[tuple[int, str | None]] = []

    def looked(seconds: float) -> None:
        found = data_of(out.read_text())
        seen.append((len(found["runs"][0]["columns"]["step"]), found["follow"]))
        if len(seen) == 2:
            raise KeyboardInterrupt
        write_run(run, records(4))

    monkeypatch.setattr(following.time, "sleep", looked)
    assert main(["report", str(run), "--watch", "--out", str(out)]) == 0
    assert seen == [(3, "watch"), (4, "watch")]
    assert data_of(out.read_text())["follow"] is None
