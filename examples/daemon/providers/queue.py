"""Edit the configuration file of queued, and let the daemon read it again."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

from resource_api import UNKNOWN, BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

#: Seconds by the last letter of ``pause``.
UNITS = {"s": 1, "m": 60, "h": 3600}
#: Seconds that the daemon has for an answer.
PATIENCE = 10
LARGEST = 10_000_000
#: The configuration, unless the manifest or the environment has another one.
PLACES = {"file": "/etc/queued.conf", "socket": "/run/queued.sock"}


class Provider(BaseProvider):
    """The queues of one daemon."""

    def check_config(self, context: Context, config: dict[str, Any]) -> dict[str, Any]:
        """Take undeclared settings from the environment, as queued's own tools do."""
        return {name: os.environ.get(f"QUEUED_{name.upper()}", default) for name, default in PLACES.items()} | config

    def configure(self, context: Context, config: Mapping[str, Any]) -> None:
        """Take the paths of the file and the socket."""
        context.debug(f"the queues are those of {config['file']}")
        self.file, self.socket = config["file"], config["socket"]

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        """Convert ``pause`` to seconds, and sort the consumers, whose order means nothing."""
        for resource in resources:
            pause = resource.get("pause")
            if isinstance(pause, str):
                resource["pause"] = int(pause[:-1]) * UNITS[pause[-1]]
            if resource.get("consumers") is not None:
                resource["consumers"] = sorted(set(resource["consumers"]))
        return resources

    def validate(self, context: Context, should: Resource) -> Iterator[Problem]:
        """Refuse a queue that would keep failed messages for longer than a day."""
        pause = should.get("pause")
        if pause is not None and pause is not UNKNOWN and pause > 24 * UNITS["h"]:
            yield Problem("pause", "must be at most 24h: queued drops what has failed for longer")

    def insync(self, context: Context, name: str, attribute: str, is_: Resource, should: Resource) -> Any:
        """Accept consumers beyond the declared ones; every other attribute is compared as usual."""
        if attribute != "consumers" or not should["consumers"]:
            return None
        missing = sorted(set(should["consumers"]) - set(is_["consumers"]))
        return (False, f"consumers {', '.join(missing)} added") if missing else True

    def get(self, context: Context) -> Iterator[Resource]:
        """Return every queue as the daemon has it."""
        for name, queue in self._send("status").items():
            yield {"ensure": "present", "name": name, **queue, "consumers": sorted(queue["consumers"])}

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        """Edit the file for each queue; one that the daemon refuses does not affect the others."""
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                if noop:
                    continue
                if should["ensure"] == "absent" and should.get("purge"):
                    self._send("purge", queue=name)
                self._edit(name, should)

    def refresh(self, context: Context, names: Collection[str]) -> None:
        """Let the daemon read its file again."""
        context.notice(list(names), message="reloading")
        self._send("reload")

    def _edit(self, name: str, should: Resource) -> None:
        """Write one section; restore the file if the daemon refuses it."""
        before = files.read(self.file, LARGEST)
        files.replace(self.file, edited(before.decode(), f"queue {name}", should).encode())
        try:
            self._send("reload")
        except ResourceError:
            files.replace(self.file, before)
            raise

    def _send(self, request: str, **fields: Any) -> Any:
        """Return the daemon's answer. Raises ``ResourceError`` for a refusal, and where no daemon listens."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(PATIENCE)
                connection.connect(self.socket)
                connection.sendall(json.dumps({"do": request, **fields}).encode() + b"\n")
                with connection.makefile() as lines:
                    answer = json.loads(lines.readline())
        except (OSError, ValueError) as error:
            raise ResourceError(f"queued does not answer at {self.socket}: {error}") from error
        if "error" in answer:
            raise ResourceError(f"queued refuses to {request}: {answer['error']}")
        return answer["ok"]


def edited(text: str, section: str, should: Resource) -> str:
    """Return a configuration with one section changed as declared; all other lines and comments stay as they are."""
    lines = text.splitlines()
    header = f"[{section}]"
    if header not in lines:
        lines += ["", header] if lines else [header]
    start = lines.index(header) + 1
    end = next((number for number in range(start, len(lines)) if lines[number].startswith("[")), len(lines))
    block = lines[start:end]
    if should["ensure"] == "absent":
        return joined(lines[: start - 1] + lines[end:])
    for attribute in ("discipline", "limit", "pause"):
        if should.get(attribute) is not None:
            assign(block, attribute, str(should[attribute]))
    if should.get("consumers") is not None:
        present = set(assigned(block, "consumers").split()) if should["consumers"] else set()
        assign(block, "consumers", " ".join(sorted(present | set(should["consumers"]))))
    return joined(lines[:start] + block + lines[end:])


def joined(lines: list[str]) -> str:
    """Return the text of lines, without empty ones at its end."""
    return "\n".join(lines).rstrip("\n") + "\n"


def assigned(block: list[str], attribute: str) -> str:
    """Return the value of a setting in the lines of a section; empty if there is none."""
    pairs = (line.partition("=") for line in block)
    return next((value.strip() for name, _, value in pairs if name.strip() == attribute), "")


def assign(block: list[str], attribute: str, value: str) -> None:
    """Replace the line of a setting, or add it after the last line that is not empty."""
    for number, line in enumerate(block):
        if line.partition("=")[0].strip() == attribute:
            block[number] = f"{attribute} = {value}"
            return
    filled = [number for number, line in enumerate(block) if line.strip()]
    block.insert(filled[-1] + 1 if filled else 0, f"{attribute} = {value}")
