"""One call of a provider in a worker: what is said from its first frame to its last, and for how long.

Which worker makes the call, and what becomes of one that is lost, is not known here.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.plugins.worker import exceptions as failure
from resource_api.plugins.worker.process import Lost
from resource_api.plugins.worker.relay import hear

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.plugins.worker.messages import Frame
    from resource_api.plugins.worker.process import Worker
    from resource_api.provider.context import Context, RunContext

#: Seconds that a call may go on after its time, once it has been asked to end.
GRACE: Final = 5.0


def never(_name: Name) -> bool:
    """Block no name."""
    return False


class Overdue(Exception):  # noqa: N818 - reads as what it says
    """The time of a call is over, and so is the grace after it."""


class Exchange:
    """One call, from its first frame to its last."""

    def __init__(self, run: RunContext, context: Context, method: str, config: Mapping[str, Any] | None) -> None:
        """Call ``method`` with ``context`` of a provider that is configured with ``config``; None: not yet."""
        self._run = run
        self._context = context
        self._method = method
        self._config = config
        self._seconds = None if context.deadline is None else context.deadline - time.monotonic()
        self._cancelled = False

    def carry_out(self, worker: Worker, arguments: Sequence[Any], *, fresh: bool) -> Callable[[], Any]:
        """Have it done; gives what gives the answer or raises what the provider raised. Raises ``Lost``."""
        if self._run.stopping and not self._context.reading:
            # Workers have been stopped, and nothing is to be changed any more.
            raise KeyboardInterrupt
        blocked: Callable[[Name], bool] = never
        if self._method == "set":
            changes = arguments[0]
            blocked = changes.blocked
            left_out = [name for name in changes.offered if blocked(name)]
            arguments = [{"offered": list(changes.offered.items()), "blocked": left_out}]
        lender = worker.lending()
        try:
            told = {"terms": self._terms(), "fresh": fresh, "config": self._config}
            worker.send("call", method=self._method, arguments=list(arguments), **told)
            while (frame := worker.receive(lambda: self._tick(worker))).kind not in {"done", "raised"}:
                if frame.kind == "blocked":
                    worker.send("answer", value=blocked(frame.body["name"]))
                elif frame.kind in {"open", "member", "read"}:
                    kind, answer = lender.answer(frame.kind, frame.body)
                    worker.send(kind, **answer)
                else:
                    hear(self._run, self._context, *frame)
            worker.drain()
            return partial(_give, frame)
        except (Lost, ValueError, LookupError, TypeError) as error:
            if worker.stopped:
                # By somebody who stops everything that runs.
                raise KeyboardInterrupt from error
            lost = error if isinstance(error, Lost) else Lost("said what nobody understands", f": {error}")
            msg = f"the worker of '{self._context.type.name}' {lost.how} while in {self._method}{lost.more}"
            raise Lost(msg) from error
        finally:
            lender.close()

    def give_up(self) -> None:
        """Say of what the call was about, and has no status yet, that its time is over."""
        outcomes, names = self._context.outcomes, self._context.subjects
        undecided = [name for name in names if name not in outcomes or outcomes[name].status is None]
        self._context.failed(
            undecided,
            f"{self._method} timed out after {round(self._seconds or 0, 1):g} s and did not end when it was asked to;"
            f" the worker of '{self._context.type.name}' has been ended",
        )

    def _terms(self) -> Mapping[str, Any]:
        context = self._context
        return {
            "subjects": [[name, *subject] for name, subject in context.subjects.items()],
            "noop": context.noop,
            "reading": context.reading,
            "seconds": self._seconds,
        }

    def _tick(self, worker: Worker) -> None:
        """Ask the call to end once the run or its time is over; raises ``Overdue`` when it does not."""
        over = self._context.deadline is not None and time.monotonic() - self._context.deadline
        if (self._run.cancelled or over > 0) and not self._cancelled:
            self._cancelled = True
            worker.send("cancel")
        if over > GRACE:
            raise Overdue


def _give(frame: Frame) -> Any:
    if frame.kind == "raised":
        raise failure.restore(frame.body)
    return frame.body["value"]
