"""SIGKILL at the mutating system calls of a run that unpacks archives: unpacked files are completed or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.test_kill import sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

#: A sweep of kills.
pytestmark = pytest.mark.whole

MINE = {"site/css/mine": "mine\n", "site/same": "same\n"}


def unpacked(**files: str) -> dict[str, dict[str, Any]]:
    """Return an archive of texts, and a file that requires it; ``__`` in a name is a slash."""
    texts = {name.replace("__", "/"): {"asset": {"text": text}} for name, text in files.items()}
    return {
        "Archive[@/site]": {"source": {"archive": {"files": texts}}, "mode": "0640"},
        "File[@/done]": {"content": "${Archive[@/site].path}\n"},
    }


ONE = unpacked(same="same\n", index="one\n", css__a="a\n", turned="file\n", gone__deep__x="x\n", around__x="x\n")
TWO = unpacked(same="same\n", index="two\n", css__b="b\n", turned__x="x\n", around="file\n", new__y="y\n")


def test_unpacking_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Into a directory that contains files of others."""
    sweep(bench("apply", ONE, foreign=MINE), 4, floor=60)


def test_replacing_an_archive_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Files become directories and the other way round."""
    sweep(bench("apply", TWO, before=[ONE], foreign=MINE), 4, floor=60)


def test_removing_an_archive_may_be_killed_at_any_system_call(bench: Make) -> None:
    """Files of others still exist."""
    machine = bench("destroy", ONE, before=[ONE], foreign=MINE)
    assert {"site", "site/css", "site/css/mine"} <= machine.whole.tree.keys()
    assert "site/index" not in machine.whole.tree
    sweep(machine, 4, floor=40)
