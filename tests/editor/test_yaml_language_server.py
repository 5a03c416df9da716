"""The JSON Schema of manifests in the YAML language server that editors use: completion, and marks of mistakes.

The server is installed from npm once, into the cache of the user; it needs ``node`` 18 or later.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import command

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.process, pytest.mark.whole]

_VERSION: Final = "1.19.2"
_HEAD: Final = (
    "inputs:\n  users: {default: {alice: {}}}\nresources:\n  User[${each.key}]:\n    for_each: ${inputs.users}\n"
)


class LanguageServer:
    """A connection to a language server on standard streams (Language Server Protocol 3.17)."""

    def __init__(self, program: Path, schema: Path) -> None:
        """Start the server; it checks all YAML files by ``schema``."""
        self._process = subprocess.Popen([program, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._schema = schema
        self._number = 0
        self._uri = ""
        self.call("initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": {}})
        self._send({"method": "initialized", "params": {}})
        self._send({"method": "workspace/didChangeConfiguration", "params": {"settings": self._settings}})

    @property
    def _settings(self) -> dict[str, Any]:
        schemas = {self._schema.as_uri(): "*.yaml"}
        return {"yaml": {"schemas": schemas, "validate": True, "completion": True, "schemaStore": {"enable": False}}}

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.communicate()

    def open(self, text: str) -> list[str]:
        """Open a new file with a text; return the messages of its diagnostics."""
        self._number += 1
        self._uri = f"file:///tmp/site-{self._number}.yaml"
        document = {"uri": self._uri, "languageId": "yaml", "version": 1, "text": text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        while True:
            message = self._receive()
            parameters = message.get("params") or {}
            if message.get("method") == "textDocument/publishDiagnostics" and parameters["uri"] == self._uri:
                return [diagnostic["message"] for diagnostic in parameters["diagnostics"]]

    def complete(self, text: str) -> set[str]:
        """Return the labels that the server offers at the end of a text."""
        self.open(text)
        lines = text.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        location = {"textDocument": {"uri": self._uri}, "position": position}
        return {item["label"] for item in self.call("textDocument/completion", location)["items"]}

    def call(self, method: str, parameters: dict[str, Any]) -> Any:
        """Return the result of a request."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        while True:
            message = self._receive()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        """Return the next message; the server's own requests are answered."""
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline().strip()) or not length:
            length = int(line.partition(b":")[2]) if line.lower().startswith(b"content-length") else length
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        if "method" in message and "id" in message:
            requested = message["method"] == "workspace/configuration"
            result = (
                [self._settings.get(item.get("section")) for item in message["params"]["items"]] if requested else None
            )
            self._send({"id": message["id"], "result": result})
        return message


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    """Return a server with the schema that ``resource-api schema`` prints."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"yaml-language-server-{_VERSION}"
    program = home / "node_modules/.bin/yaml-language-server"
    if not program.exists():
        install = ["npm", "install", "--silent", "--prefix", home, f"yaml-language-server@{_VERSION}"]
        subprocess.run(install, check=True, capture_output=True)
    directory = tmp_path_factory.mktemp("editor")
    process = command.run(["schema"], cwd=directory, env=command.environment_of(directory), timeout=100)
    schema = directory / "manifest.json"
    schema.write_bytes(process.stdout)
    server = LanguageServer(program, schema)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (_HEAD + "    ", {"when", "shell", "require", "retry"}),
        (_HEAD + "    when:\n      ", {"any", "not"}),
        (_HEAD + "    when:\n      facts.os.family:\n        ", {"not", "matches", "ge", "lt", "exists"}),
        ("include:\n  - ", {"file", "when"}),
        ("outputs:\n  x:\n    value: 1\n    ", set()),
    ],
)
def test_an_editor_completes(server: LanguageServer, text: str, labels: set[str]) -> None:
    """Metaparameters, parts of conditions, and their tests."""
    assert labels <= server.complete(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_HEAD + "    shell: ${each.value.shell}\n    when: {each.value.admin: true}\n", ""),
        (_HEAD + "    when: {any: [{facts.os.family: [a, b]}, {not: {inputs.x: {ge: '22.04'}}}]}\n", ""),
        ("include: [a.yaml, {file: b.yaml, when: '${inputs.web}'}]\n", ""),
        ("outputs: {x: {value: 1, when: {facts.kernel: Linux}}}\n", ""),
        (_HEAD + "    when: {os.family: Debian}\n", "os.family is not allowed"),
        (_HEAD + "    when: {facts.os.family: {is: Debian}}\n", "is is not allowed"),
        (_HEAD + "    when: Debian\n", "does not match"),
        ("resources:\n  User[x]: {for_each: 3}\n", "Incorrect type"),
        ("defaults:\n  User: {when: true}\n", "when is not allowed"),
        ("include: [{when: true}]\n", 'Missing property "file"'),
    ],
)
def test_an_editor_marks_mistakes(server: LanguageServer, text: str, message: str) -> None:
    """And nothing in a manifest that is right."""
    messages = server.open(text)
    assert any(message in output for output in messages) if message else not messages, messages
