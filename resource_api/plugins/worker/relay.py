"""What is said during a call, on both sides of a pipe: told by the worker as it is said, taken over by the runtime.

A worker lends its provider an ordinary context; only where that writes, keeps and asks is replaced here. The rules of
what may be said when hold where it is said.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import ProviderError
from resource_api.model.values.masking import Mask
from resource_api.model.values.values import is_secret
from resource_api.plugins.worker import exceptions as failure
from resource_api.plugins.worker.assets import borrowed
from resource_api.provider.context import RunContext
from resource_api.provider.outcomes import CallOutcomes, Outcome
from resource_api.system.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.model.change import Difference
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.worker.channel import Channel
    from resource_api.provider.context import Context
    from resource_api.system.log import Line


class DistantRun(RunContext):
    """The run of a worker: its log, its outcomes and the question whether it is cancelled go through a channel."""

    def __init__(self, channel: Channel, level: str) -> None:
        """Tell lines from ``level`` on."""
        self._channel = channel
        self._asking = threading.Lock()
        #: How many calls there have been; a context of an earlier one, kept by some thread, is not heard.
        self._calls = 0
        self._calling = False
        self._cancelled = False
        #: Whether anything of the present call has failed.
        self._failures = False
        channel.splitter.content = borrowed(self.ask)
        super().__init__(Log(level, self._say))
        self.log.mask = _DistantMask(channel)

    @property
    def cancelled(self) -> bool:
        """Whether the runtime has said that this call should end soon."""
        with self._asking:
            while self._calling and not self._cancelled and self._channel.waiting():
                self._cancelled = self._channel.receive().kind == "cancel"
            return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        """Be told by nobody here."""

    def isolates(self, definition: TypeDefinition) -> bool:
        """Never: this is the worker."""
        del definition
        return False

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Be in a call: only then may what the runtime says be read here."""
        with self._asking:
            self._calls += 1
            self._calling, self._cancelled, self._failures = True, False, False
        try:
            yield
        finally:
            with self._asking:
                self._calling = False

    def new_outcomes(self, *about: Any, **call: Any) -> CallOutcomes:
        """Give a ledger that tells what it is told."""
        return _DistantLedger(partial(self._tell, self._calls), *about, **call)

    def blocked(self, name: Name) -> bool:
        """Ask whether a prerequisite of a name has failed by now: as long as nothing has failed, none can have."""
        return self._failures and bool(self.ask("blocked", name=name))

    def ask(self, kind: str, **about: Any) -> Any:
        """Ask the runtime; raises what the answer says, and ``ProviderError`` outside of a call."""
        with self._asking:
            if not self._calling:
                msg = f"'{kind}' is asked of the run after the call has ended that it was about"
                raise ProviderError(msg)
            self._channel.send(kind, **about)
            while (answer := self._channel.receive()).kind == "cancel":
                self._cancelled = True
        if answer.kind == "refused":
            raise failure.restore(answer.body)
        return answer.body["value"]

    def _tell(self, call: int, kind: str, **body: Any) -> None:
        if self._calling and call == self._calls:
            self._failures = self._failures or body.get("status") == "failed"
            self._channel.send(kind, **body)

    def _say(self, line: Line) -> None:
        self._channel.send("line", level=line.level, subject=line.subject, text=line.text)


class _DistantLedger(CallOutcomes):
    """Keeps the rules, and passes on what was said."""

    def __init__(self, say: Callable[..., None], *about: Any, **call: Any) -> None:
        super().__init__(*about, **call)
        self._say = say

    def set_status(self, names: list[Name], status: str, why: object = "") -> None:
        for name in names:
            super().set_status([name], status, why)
            self._say("status", name=name, status=status, reason=self[name].reason)

    def add_attribute(self, name: Name, difference: Difference, text: str) -> None:
        super().add_attribute(name, difference, text)
        self._say("attribute", name=name, difference=difference)


class _DistantMask(Mask):
    """Leaves masking to the runtime, and tells it what is secret."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def add(self, value: Any) -> None:
        if is_secret(value):
            self._channel.send("conceal", value=value)


def hear(run: RunContext, context: Context, kind: str, body: Mapping[str, Any]) -> None:
    """Take over what a worker has said of a call. Raises ``ValueError`` for what nobody says."""
    if kind == "line":
        run.log.write(body["level"], body["subject"], body["text"])
    elif kind == "status":
        context.outcomes.copy_status(body["name"], body["status"], body["reason"])
    elif kind == "attribute":
        context.outcomes.setdefault(body["name"], Outcome()).attributes.append(body["difference"])
    elif kind == "conceal":
        run.log.mask.add(body["value"])
    else:
        msg = f"a frame '{kind}' in the middle of a call"
        raise ValueError(msg)
