"""A run with replacements, renamed resources and exclusions, killed at each event: the next run completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lifecycle.world import Bench, Kill

if TYPE_CHECKING:
    from collections.abc import Callable

#: The replacement is created before the old resource is deleted.
_CREATE_FIRST: Final = {"replace": "create_first"}

_BEFORE: Final[dict[str, Any]] = {
    "Thing[a]": {"name": "a-1", "image": "x", "lifecycle": _CREATE_FIRST},
    "Gizmo[user]": {"name": "user-1", "image": "${Thing[a].serial}", "lifecycle": _CREATE_FIRST},
    "Thing[old]": {"name": "kept", "size": 1},
    "Thing[former]": {"image": "x", "lifecycle": _CREATE_FIRST},
    "Thing[out]": {"size": 1},
    "Thing[needs out]": {"size": 1, "require": "Thing[out]"},
}
#: Each but the excluded ones differs: replaced, replaced for the sake of that, renamed, renamed and replaced, added.
_AFTER: Final[dict[str, Any]] = {
    "Thing[a]": {"name": "a-2", "image": "y", "lifecycle": _CREATE_FIRST},
    "Gizmo[user]": {"name": "user-2", "image": "${Thing[a].serial}", "lifecycle": _CREATE_FIRST},
    "Thing[new]": {"name": "kept", "size": 2},
    "Thing[later]": {"image": "y", "lifecycle": _CREATE_FIRST},
    "Thing[out]": {"size": 2},
    "Thing[needs out]": {"size": 2, "require": "Thing[out]"},
    "Thing[added]": {"require": "Thing[a]"},
}
_MOVED: Final = [{"from": "Thing[former]", "to": "Thing[later]"}]


class Mortal(Bench):
    """A bench that is killed at an event: a reading, the begin or the end of a change, a writing of state."""

    def __init__(self) -> None:
        """Start without an end; creating what exists and deleting what does not are mistakes."""
        super().__init__()
        #: How many events happen before the end; None: there is none.
        self.left: int | None = None
        self._change, self._row, self._live = self.world.change, self.world.row, self.store._live
        self.world.change = self._changing  # type: ignore[method-assign]
        self.world.row = self._reading  # type: ignore[method-assign]
        self.store._live = self._writing  # type: ignore[method-assign]

    def _event(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.store.dead = True
            raise Kill

    def _reading(self, key: tuple[str, Any]) -> dict[str, Any] | None:
        self._event()
        return self._row(key)

    def _changing(self, kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        self._event()
        exists, deleted = name in self.world.things[kind], should.get("ensure") == "absent"
        assert exists == (deleted or is_ is not None), f"{name} is created or deleted twice"
        self._change(kind, name, is_, should, context)
        self._event()

    def _writing(self) -> None:
        self._event()
        self._live()

    def carry_out(self, run: Callable[[], Any], remaining: int | None = None) -> bool:
        """Carry out a run with an end after ``remaining`` events, and again if it was killed; return whether it was."""
        self.left = remaining
        try:
            report = run()
        except Kill:
            self.left = None
            self.revive()
            assert run().exit_code == 0
            return True
        self.left = None
        assert report.exit_code == 0
        return False

    def first(self) -> Any:
        """Apply the manifest as it was."""
        return self.runtime.apply({"project": "world", "resources": _BEFORE})

    def second(self) -> Any:
        """Apply the manifest as it is now, without the excluded resource and its dependents."""
        source = {"project": "world", "resources": _AFTER, "moved": _MOVED}
        return self.runtime.apply(source, excludes=["Thing[out]", "Thing[needs out]"])

    def destroyed(self) -> Any:
        """Destroy all that is recorded."""
        return self.runtime.destroy({"project": "world", "resources": _AFTER})


@pytest.mark.parametrize("killed", ["first", "second", "destroyed"])
def test_a_kill_at_any_event_orphans_nothing_and_makes_nothing_twice(killed: str) -> None:
    """After the next run all is as declared and recorded as ours, and ``destroy`` leaves nothing."""
    remaining, again = 0, True
    while again:
        bench = Mortal()
        for name in ("first", "second", "destroyed"):
            if name == killed:
                again = bench.carry_out(getattr(bench, name), remaining)
            else:
                bench.carry_out(getattr(bench, name))
            if name == "second":
                expected = {"a-2": "y", "kept": None, "later": "y", "out": None, "needs out": None, "added": None}
                assert {n: row.get("image") for n, row in bench.world.things["thing"].items()} == expected, remaining
                assert bench.names("gizmo") == ["user-2"], remaining
                sizes = {n: bench.world.things["thing"][n]["size"] for n in ("kept", "out", "needs out")}
                assert sizes == {"kept": 2, "out": 1, "needs out": 1}, remaining
                records = bench.state.records.values()
                assert {str(record.reference) for record in records} == set(_AFTER), remaining
                assert {(item.status, item.owned) for item in records} == {("ready", True)}, remaining
                assert not bench.state.intents, remaining
        assert bench.world.things == {kind: {} for kind in bench.world.things}, remaining
        assert not bench.state.records, remaining
        remaining += 1
    assert remaining > 20
