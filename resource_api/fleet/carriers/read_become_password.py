"""The passwords that sudo and doas may ask for: each is read once for a run, in whichever process it is needed.

Hosts share one, and a program that prints it may ask the user for something. So where hosts are split over processes,
only the first of them reads; the others ask it by a pipe.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api.fleet.value_sources import ValueSource
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class BecomePasswords:
    """Passwords by their sources; threads may share one."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: dict[ValueSource, Sensitive[str]] = {}
        self._reading = threading.Lock()
        self._pipe: Connection | None = None

    def read(self, source: ValueSource) -> Sensitive[str]:
        """Return the password that a file or a program has. Raise ``ResourceError``."""
        with self._reading:
            if source not in self._known:
                self._known[source] = Sensitive(_read(source) if self._pipe is None else _asked(source, self._pipe))
            return self._known[source]

    def ask(self, pipe: Connection) -> None:
        """Ask the process at the other end of a pipe for all passwords from now on."""
        self._pipe = pipe

    def answer(self, pipe: Connection) -> None:
        """Answer the process at the other end of a pipe, in a thread that ends with it."""
        threading.Thread(target=self._answer, args=(pipe,), name="passwords", daemon=True).start()

    def _answer(self, pipe: Connection) -> None:
        with pipe, suppress(EOFError, OSError):
            while True:
                source, answer = ValueSource(*json.loads(pipe.recv_bytes())), dict[str, Any]()
                try:
                    answer["password"] = self.read(source).reveal()
                except ResourceError as error:
                    answer["error"] = str(error)
                pipe.send_bytes(json.dumps(answer).encode())


def _read(source: ValueSource) -> str:
    try:
        password = source.read()
    except ValueError as error:
        msg = f"become_password: {error}"
        raise ResourceError(msg) from error
    if not password or "\n" in password:  # further lines would be input of what runs there
        there = "are more" if password else "is none"
        msg = f"become_password: {source.name}: a password is one line, and there {there}"
        raise ResourceError(msg)
    return password


def _asked(source: ValueSource, pipe: Connection) -> str:
    pipe.send_bytes(json.dumps(source).encode())
    answer = json.loads(pipe.recv_bytes())
    if "error" in answer:
        raise ResourceError(answer["error"])
    password: str = answer["password"]
    return password
