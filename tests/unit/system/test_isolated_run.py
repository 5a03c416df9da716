"""Waiting for a process while signals are passed on to it."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from resource_api.system.overlay import isolated_run

#: Enough to hit the moments before, while and after a process begins to wait.
ROUNDS = 40


def started_supervisor(delay: int) -> int:
    """Start a process that waits for another one, which ends with 7 when it gets SIGTERM; return its number."""
    if child := os.fork():
        return child
    if not (accepted := os.fork()):
        # In ten seconds the signal has come, or it never does.
        came = signal.sigtimedwait({signal.SIGTERM}, 10)
        os._exit(7 if came else 1)
    sum(range(delay))
    os._exit(isolated_run.wait(accepted))


def test_a_signal_is_passed_on_whenever_it_comes() -> None:
    """Also before the process that gets it has begun to wait."""
    with isolated_run.signals_blocked():
        for number in range(ROUNDS):
            child = started_supervisor(delay=1000 * number)
            os.kill(child, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == signal.SIGTERM, number


def test_what_is_ignored_is_not_passed_on() -> None:
    """After nohup(1) a rehearsal goes on when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with isolated_run.signals_blocked():
            child = started_supervisor(delay=0)
            os.kill(child, signal.SIGHUP)
            os.kill(child, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(os.geteuid() != 0, reason="others may not make namespaces everywhere")
def test_a_failure_may_name_any_path() -> None:
    """Its bytes need not be UTF-8: a mount of any user can be in the way."""

    def fail(_layers: int) -> bytes:
        raise OSError(errno.ENOENT, "gone", os.fsdecode(b"/x\xff"))

    with pytest.raises(isolated_run.IsolationError, match="cannot be isolated: /x\udcff: gone"):
        isolated_run.run(fail, isolated_run.Isolation())


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_was_done_with_signals_before_is_done_again(handler: signal.Handlers) -> None:
    """A child is waited for even where the end of children is ignored."""
    before = signal.signal(signal.SIGCHLD, handler)
    try:
        with isolated_run.signals_blocked():
            if not (child := os.fork()):
                os._exit(0)
            assert isolated_run.wait(child) == 0
        assert signal.getsignal(signal.SIGCHLD) == handler
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(signal.SIGCHLD, before)
