"""The passwords that sudo and doas may ask for: each is read once for a run, in whichever process it is needed.

Hosts share one, and a program that prints it may ask the user for something. So where hosts are split over processes,
only the first of them reads; the others ask it by a pipe.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api.fleet.host_inputs import read_indirect, unread
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class BecomePasswords:
    """Passwords by their place, as ``Host.become_password`` has it; threads may share one."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: dict[tuple[str, str, str], Sensitive[str]] = {}
        self._reading = threading.Lock()
        self._pipe: Connection | None = None

    def read(self, place: tuple[str, str, str]) -> Sensitive[str]:
        """Return the password that a file or a program has. Raise ``ResourceError``."""
        with self._reading:
            if place not in self._known:
                self._known[place] = Sensitive(_read(place) if self._pipe is None else _asked(place, self._pipe))
            return self._known[place]

    def ask(self, pipe: Connection) -> None:
        """Ask the process at the other end of a pipe for all passwords from now on."""
        self._pipe = pipe

    def answer(self, pipe: Connection) -> None:
        """Answer the process at the other end of a pipe, in a thread that ends with it."""
        threading.Thread(target=self._answer, args=(pipe,), name="passwords", daemon=True).start()

    def _answer(self, pipe: Connection) -> None:
        with pipe, suppress(EOFError, OSError):
            while True:
                kind, text, directory = json.loads(pipe.recv_bytes())
                answer: dict[str, Any] = {}
                try:
                    answer["password"] = self.read((kind, text, directory)).reveal()
                except ResourceError as error:
                    answer["error"] = str(error)
                pipe.send_bytes(json.dumps(answer).encode())


def _read(place: tuple[str, str, str]) -> str:
    try:
        return read_indirect(*place)
    except (OSError, ValueError) as error:
        msg = f"become_password: {unread(place, error)}"
        raise ResourceError(msg) from error


def _asked(place: tuple[str, str, str], pipe: Connection) -> str:
    pipe.send_bytes(json.dumps(place).encode())
    answer = json.loads(pipe.recv_bytes())
    if "error" in answer:
        raise ResourceError(answer["error"])
    password: str = answer["password"]
    return password
