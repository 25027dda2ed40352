"""What ranks need that takes no second process: their devices, signals that come twice, and being alone."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch

from searnn.training import World, find_device, joined
from searnn.training.interruption import interruption
from searnn.training.world import _is_lost
from searnn.types import SearnnError

SECOND = World(rank=5, size=8, local_rank=1, local_size=4)


def test_each_rank_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for name in ("auto", "cuda"):
        assert find_device(name, SECOND) == torch.device("cuda", 1)
        assert find_device(name) == torch.device("cuda", 0)
    assert find_device("cpu", SECOND) == torch.device("cpu")
    with pytest.raises(SearnnError, match="cuda:1, but 4 processes run on this machine, each on a GPU of its own"):
        find_device("cuda:1", SECOND)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for rank in (0, 3):
        with pytest.raises(SearnnError, match="4 processes were started on this machine, which has 2 CUDA devices"):
            find_device("auto", World(rank, 4, rank, 4))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto", SECOND) == torch.device("cpu")


def test_a_signal_that_comes_again_at_once_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")  # as under torchrun
    with interruption(echo=0.2) as interrupted:
        assert not interrupted()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
            assert interrupted()
        time.sleep(0.21)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no such signal")
def test_a_terminal_that_is_closed_asks_to_end_and_nohup_does_not() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with interruption() as interrupted:
            for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):  # they come more than once
                os.kill(os.getpid(), number)
                assert interrupted()
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with interruption() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupted()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_process_alone_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something was sent")

    for name in ("init_process_group", "all_reduce", "all_gather_object", "broadcast_object_list"):
        monkeypatch.setattr(torch.distributed, name, refuse)
    monkeypatch.setenv("WORLD_SIZE", "4")  # some systems set it for purposes of their own
    with joined() as world:
        assert world == World()
        assert world.any(False, True) == (False, True)
        assert world.gather("x") == ["x"]
        assert world.sum(torch.ones(2)).tolist() == [1, 1]
        assert world.by_first(lambda: 3) == 3
        with pytest.raises(SearnnError, match="wrong"), world.together(), world.in_turn():
            raise SearnnError("wrong")
    with pytest.raises(RuntimeError, match="shapes"), joined():
        raise RuntimeError("shapes do not match")


def test_what_means_that_a_rank_is_lost() -> None:
    assert _is_lost(RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1234"))
    assert _is_lost(torch.distributed.DistBackendError("NCCL error"))
    assert not _is_lost(RuntimeError("shapes do not match"))
