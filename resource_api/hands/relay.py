"""What is said during a call, on both sides of a pipe: told by the worker as it is said, taken over by the runtime.

A worker lends its provider an ordinary context; only where that writes, keeps and asks is replaced here. The rules of
what may be said when hold where it is said.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from resource_api.hands.context import Run
from resource_api.hands.ledger import Ledger, Outcome
from resource_api.hands.lending import borrowed
from resource_api.hands.log import Log
from resource_api.nouns import failure
from resource_api.nouns.mask import Mask
from resource_api.nouns.values import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.hands.channel import Channel
    from resource_api.hands.context import Context
    from resource_api.hands.log import Line
    from resource_api.nouns.change import Difference
    from resource_api.nouns.definition import Name, TypeDefinition


class DistantRun(Run):
    """The run of a worker: its log, its outcomes and the question whether it is cancelled go through a channel."""

    def __init__(self, channel: Channel, level: str) -> None:
        """Tell lines from ``level`` on."""
        self._channel = channel
        self._asking = threading.Lock()
        self._cancelled = False
        #: Whether anything of the present call has failed.
        self.failures = False
        channel.splitter.content = borrowed(self.ask)
        super().__init__(Log(level, self._say))
        self.log.mask = _DistantMask(channel)

    @property
    def cancelled(self) -> bool:
        """Whether the runtime has said that this call should end soon."""
        with self._asking:
            while not self._cancelled and self._channel.waiting():
                self._cancelled = self._channel.receive().kind == "cancel"
            return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._cancelled = value

    def isolates(self, definition: TypeDefinition) -> bool:
        """Never: this is the worker."""
        del definition
        return False

    def ledger(self, *about: Any, **call: Any) -> Ledger:
        """Give a ledger that tells what it is told."""
        return _DistantLedger(self, self._channel, *about, **call)

    def blocked(self, name: Name) -> bool:
        """Ask whether a prerequisite of a name has failed by now: as long as nothing has failed, none can have."""
        return self.failures and bool(self.ask("blocked", name=name))

    def ask(self, kind: str, **about: Any) -> Any:
        """Ask the runtime; raises what the answer says."""
        with self._asking:
            self._channel.send(kind, **about)
            while (answer := self._channel.receive()).kind == "cancel":
                self._cancelled = True
        if answer.kind == "refused":
            raise failure.restore(answer.body)
        return answer.body["value"]

    def _say(self, line: Line) -> None:
        self._channel.send("line", level=line.level, subject=line.subject, text=line.text)


class _DistantLedger(Ledger):
    """Keeps the rules, and passes on what was said."""

    def __init__(self, run: DistantRun, channel: Channel, *about: Any, **call: Any) -> None:
        super().__init__(*about, **call)
        self._run = run
        self._channel = channel

    def settle(self, names: list[Name], status: str, why: object = "") -> None:
        for name in names:
            super().settle([name], status, why)
            self._run.failures = self._run.failures or status == "failed"
            self._channel.send("status", name=name, status=status, reason=self.outcomes[name].reason)

    def attribute(self, name: Name, difference: Difference, text: str) -> None:
        super().attribute(name, difference, text)
        self._channel.send("attribute", name=name, difference=difference)


class _DistantMask(Mask):
    """Leaves masking to the runtime, and tells it what is secret."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def add(self, value: Any) -> None:
        if is_secret(value):
            self._channel.send("conceal", value=value)


def hear(run: Run, context: Context, kind: str, body: Mapping[str, Any]) -> None:
    """Take over what a worker has said of a call. Raises ``ValueError`` for what nobody says."""
    if kind == "line":
        run.log.write(body["level"], body["subject"], body["text"])
    elif kind == "status":
        outcome = context.outcomes.setdefault(body["name"], Outcome())
        outcome.status, outcome.reason = body["status"], body["reason"]
    elif kind == "attribute":
        context.outcomes.setdefault(body["name"], Outcome()).attributes.append(body["difference"])
    elif kind == "conceal":
        run.log.mask.add(body["value"])
    else:
        msg = f"a frame '{kind}' in the middle of a call"
        raise ValueError(msg)
