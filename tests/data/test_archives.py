from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fewbits.data.datasets.base import find_archive
from fewbits.errors import MissingExtraError, MissingFileError


class Server(HTTPServer):
    """Serves one file on loopback, after a number of failures."""

    failures = 0
    requests = 0
    truncated = False


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.requests += 1
        if server.requests <= server.failures:
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"arch" if server.truncated else b"archive")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/a.bin"


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEWBITS_DATA", raising=False)


def test_an_archive_in_the_folder_of_the_environment_variable_comes_before_the_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path / "named", own_cache):
        folder.mkdir(parents=True)
        (folder / "a.bin").write_text("here")
    assert find_archive("a.bin") == own_cache / "a.bin"
    monkeypatch.setenv("FEWBITS_DATA", str(tmp_path / "named"))
    assert find_archive("a.bin") == tmp_path / "named" / "a.bin"


def test_a_missing_archive_is_downloaded_into_the_cache_once(server: Server, own_cache: Path) -> None:
    assert find_archive("a.bin", url(server)) == own_cache / "a.bin"
    assert (own_cache / "a.bin").read_bytes() == b"archive"
    find_archive("a.bin", url(server))
    assert server.requests == 1


def test_a_failing_download_is_retried(server: Server) -> None:
    server.failures = 2
    assert find_archive("a.bin", url(server)).read_bytes() == b"archive"
    assert server.requests == 3


def test_an_interrupted_download_raises_an_error_and_leaves_no_file(server: Server, own_cache: Path) -> None:
    server.truncated = True
    with pytest.raises(MissingFileError, match=r"a.bin could not be downloaded from http://127.0.0.1"):
        find_archive("a.bin", url(server))
    assert not (own_cache / "a.bin").exists()


def test_without_a_network_the_error_names_the_file_and_the_folder(own_cache: Path) -> None:
    with pytest.raises(MissingFileError, match=rf"a.bin could not be downloaded.*put the file into {own_cache}"):
        find_archive("a.bin", "http://127.0.0.1:9/a.bin")


def test_without_a_download_address_the_error_names_the_file_and_the_folder(own_cache: Path) -> None:
    with pytest.raises(MissingFileError, match=rf"a.bin is not in {own_cache}.*FEWBITS_DATA"):
        find_archive("a.bin")


def test_a_download_without_its_extra_raises_an_error_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fewbits\[download\]'"):
        find_archive("a.bin", "http://127.0.0.1:9/a.bin")


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_shown_on_standard_error_if_enabled(
    server: Server, capfd: pytest.CaptureFixture[str], progress: bool
) -> None:
    find_archive("a.bin", url(server), progress=progress)
    output = capfd.readouterr()
    assert output.out == ""
    assert ("100%" in output.err) == progress
