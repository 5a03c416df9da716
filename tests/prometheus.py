"""A real Prometheus that reads metrics files through the textfile collector of a real node exporter."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Administrators' programs may not be on the path of the user who runs the tests.
_PATH: Final = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
_CONFIG: Final = """
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def promtool(*words: str | Path, text: str = "") -> str:
    """Run promtool on files, or on the text of its standard input; return all that it prints, which must be success."""
    result = subprocess.run(["promtool", *words], input=text, check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        """Ask the server that listens on a port of loopback."""
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer, which must be success."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self._url}/{path}?{query}", timeout=10) as answer:  # noqa: S310 - loopback
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        assert document["status"] == "success"
        return document["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression now."""
        result: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return result

    def value(self, expression: str) -> float:
        """Return the value of an expression with one sample."""
        (sample,) = self.query(expression)
        return float(sample["value"][1])


@contextmanager
def scraping(directory: Path, files: Path, rules: Path | None = None) -> Iterator[Prometheus]:
    """Start a server that reads the metrics ``files`` of a directory; its own files are in the empty ``directory``."""
    ports = [_free_port() for _ in range(2)]
    config = directory / "prometheus.yml"
    config.write_text(_CONFIG.format(rules=f'"{rules}"' if rules else "", port=ports[0]), encoding="utf-8")
    exporter = [f"--web.listen-address=127.0.0.1:{ports[0]}", f"--collector.textfile.directory={files}"]
    exporter += ["--collector.disable-defaults", "--collector.textfile"]
    server = [f"--config.file={config}", f"--storage.tsdb.path={directory}/data"]
    server += [f"--web.listen-address=127.0.0.1:{ports[1]}"]
    result = Prometheus(ports[1])
    with ExitStack() as stack, (directory / "log").open("w") as log:
        for words in (["prometheus-node-exporter", *exporter], ["prometheus", *server]):
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_PATH)
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_until(lambda: _is_up(result))
        yield result


def _is_up(server: Prometheus) -> bool:
    try:
        return bool(server.query("up == 1"))
    except OSError:
        return False
    except AssertionError:  # it is starting
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
