"""The laws of the durable store: damage is never taken for a fresh start, and what was committed is never lost."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.model.record import Commit, Intent, Record
from resource_api.model.values.errors import StateError
from resource_api.state.sqlite import database, marker
from resource_api.state.sqlite.marker import Marker
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.testing.state_examples import content, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.record import StackState

ROOT: Final = Path(__file__).resolve().parents[3]
WEB: Final = StackName("web", "default")


@pytest.fixture
def path() -> Iterator[Path]:
    """Give where the database is to be: in a directory that is not there yet; in memory, where no flush waits."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        yield Path(directory) / "state" / "state.db"


@pytest.fixture
def store(path: Path) -> SqliteStore:
    """Give a store with nothing in it."""
    return SqliteStore(str(path))


def write(store: SqliteStore, *names: str, finish: bool = True) -> StackState:
    """Record some files in one run."""
    with store.lock("test", 0):
        state = store.commit(WEB, Commit([record(name) for name in names]))
        if finish:
            store.finish_run(WEB, {"run": str(state.serial), "command": "test"})
        return state


def files(path: Path) -> dict[str, bytes]:
    """Give every file beside the database with its content."""
    return {each.name: each.read_bytes() for each in sorted(path.parent.iterdir())}


def run(code: str, *arguments: str, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python in a process of its own."""
    return subprocess.run(
        [*(before or []), sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


class TestPlace:
    """Who else could read or write what is recorded."""

    @pytest.mark.parametrize("mask", [0, 0o777])
    def test_everything_is_private_whatever_the_umask(self, store: SqliteStore, path: Path, mask: int) -> None:
        """The directory 0700, each file 0600, from the moment that they are made."""
        path.parent.parent.chmod(0o755)
        before = os.umask(mask)
        try:
            if mask:
                path.parent.mkdir()
                path.parent.chmod(0o700)
            with store.lock("test", 0):
                store.commit(WEB, Commit([record()]))
                modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
            write(store, "/b")
            modes |= {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
        finally:
            os.umask(before)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert {"state.db", "state.db-wal", "state.db.lock", "state.db.holder", "state.db.marker", "state.db.1"} <= set(
            modes
        )
        assert set(modes.values()) == {0o600}

    def test_a_place_that_others_can_write_to_is_refused(self, store: SqliteStore, path: Path) -> None:
        """The directory and the file; the message says what to do."""
        write(store, "/a")
        for each, mode in ((path.parent, 0o770), (path.parent, 0o707), (path, 0o620)):
            kept = each.stat().st_mode
            each.chmod(mode)
            with pytest.raises(StateError, match=r"others can write to it.*chmod go-w"):
                store.load(WEB)
            with pytest.raises(StateError, match="others can write to it"), store.lock("test", 0):
                pass
            each.chmod(kept)
        assert store.load(WEB).serial == 1

    def test_a_place_of_somebody_else_is_refused(self, store: SqliteStore, path: Path) -> None:
        """Whoever owns it could change it."""
        write(store, "/a")
        for each in (path, path.parent):
            os.chown(each, 12345, -1)
            with pytest.raises(StateError, match="belongs to another user"):
                store.load(WEB)
            os.chown(each, 0, -1)

    def test_a_link_instead_of_the_database_is_refused(self, store: SqliteStore, path: Path) -> None:
        """State is kept in a file, not where somebody points."""
        write(store, "/a")
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
        with pytest.raises(StateError, match="is not a regular file"):
            store.load(WEB)

    def test_looking_makes_nothing(self, store: SqliteStore, path: Path) -> None:
        """Where nothing is recorded, reading leaves no trace, not even the directory."""
        assert store.load(WEB).serial == 0
        assert list(store.stacks()) == []
        assert store.check()
        assert not path.parent.exists()

    @pytest.mark.usefixtures("_unmeasured")
    def test_sqlite_is_imported_with_the_first_database(self, path: Path) -> None:
        """Commands that keep no state do not pay for it."""
        code = (
            "import sys; from resource_api.state.open_store import open_store;"
            "open_store('sqlite:' + sys.argv[1]).stacks(); assert 'sqlite3' not in sys.modules"
        )
        done = run(code, str(path))
        assert done.returncode == 0, done.stderr


class TestMissing:
    """A database that is not what the marker says is damage: exit code 74, and the command that mends it."""

    @pytest.mark.parametrize("how", ["missing", "empty", "short", "zeroed", "rolled back", "another"])
    def test_what_is_lost_is_never_a_fresh_start(self, store: SqliteStore, path: Path, how: str) -> None:
        """Neither for who reads nor for who would write."""
        write(store, "/a")
        old = path.read_bytes()
        write(store, "/b")
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").unlink(missing_ok=True)
        if how == "missing":
            path.unlink()
        elif how == "another":
            other = SqliteStore(str(path.parent.parent / "other" / "state.db"))
            write(other, "/a")
            write(other, "/a")
            write(other, "/a")
            shutil.copy(other.path, path)
        else:
            data = path.read_bytes()
            new = {
                "empty": b"",
                "short": data[:5000],
                "zeroed": data[:4096] + bytes(4096) + data[8192:],
                "rolled back": old,
            }
            path.write_bytes(new[how])
        for attempt in (lambda: store.load(WEB), store.stacks, store.check, lambda: write(store, "/c")):
            with pytest.raises(StateError, match="'resource-api state recover'") as caught:
                attempt()
            assert caught.value.exit_code == 74

    def test_a_kill_while_the_first_one_is_made_is_no_damage(self, store: SqliteStore, path: Path) -> None:
        """The marker knows that it was being made, whether it is there already or not."""
        path.parent.mkdir(mode=0o700)
        marker.write(str(path), Marker({}, creating=True))
        (path.parent / "state.db.new").write_bytes(b"half")
        assert store.load(WEB).serial == 0
        database.create(str(path))
        assert store.load(WEB).serial == 0
        assert write(store, "/a").serial == 1
        assert SqliteStore(str(path)).load(WEB).serial == 1

    def test_a_first_commit_is_known_at_once(self, store: SqliteStore, path: Path) -> None:
        """Losing the database before the first run is over is damage too."""
        with store.lock("test", 0):
            store.commit(WEB, Commit([record()]))
            assert marker.read(str(path)) == Marker({WEB: (store.load(WEB).lineage, 1)})

    def test_the_marker_follows_a_run_that_was_cut(self, store: SqliteStore, path: Path) -> None:
        """A database newer than its marker is the state; the next run notes it."""
        write(store, "/a")
        before = marker.read(str(path))
        after = write(store, "/b")
        assert before is not None
        marker.write(str(path), before)
        assert store.load(WEB).serial == after.serial
        with store.lock("test", 0):
            pass
        noted = marker.read(str(path))
        assert noted is not None
        assert noted.versions[WEB] == (after.lineage, after.serial)

    def test_a_newer_version_is_refused_and_nothing_written(self, store: SqliteStore, path: Path) -> None:
        """Both versions are named; not even the note of the holder changes."""
        write(store, "/a")
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version={database.VERSION + 1}")
        connection.close()
        before = files(path)
        for attempt in (lambda: write(store, "/b"), lambda: store.recover(0)):
            with pytest.raises(StateError, match=rf"format {database.VERSION + 1}.* up to {database.VERSION}"):
                attempt()
            assert files(path) == before
        with pytest.raises(StateError, match="written by a newer resource-api"):
            store.load(WEB)
        assert {name: data for name, data in files(path).items() if name in before} == before


class TestDamage:
    """Whatever happens to the bytes: the same state or an error, never another state, never another error."""

    @pytest.fixture
    def whole(self, store: SqliteStore, path: Path) -> StackState:
        """Record a little of everything and leave one file that says all."""
        with store.lock("test", 0):
            store.record_intents(WEB, [Intent("1", "file", "/x", "/x", "create")])
            store.commit(
                WEB, Commit([record("/a"), record(("b", "c"))], owed={("file", "/a"): ["File[/b]"]}, outputs={"o": 1})
            )
            store.commit(StackName("other", "x"), Commit([record("/a")]))
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").unlink(missing_ok=True)
        return store.load(WEB)

    def broken(self, data: bytes) -> Iterator[bytes]:
        """Give the file with a flipped byte, a block of zeros, or an end that is missing."""
        chance = random.Random(7)  # noqa: S311 - the same each time
        used = [offset for offset in range(len(data)) if data[offset]]
        for offset in {*range(100), *chance.sample(used, 900), *chance.sample(range(len(data)), 100)}:
            yield data[:offset] + bytes([data[offset] ^ (1 << chance.randrange(8))]) + data[offset + 1 :]
        for offset in range(0, len(data), 512):
            yield data[:offset] + bytes(512) + data[offset + 512 :]
            yield data[:offset]

    def test_no_damage_goes_unnoticed(self, store: SqliteStore, path: Path, whole: StackState) -> None:
        """Every flipped byte, block of zeros and truncation either leaves the state as it was or is refused."""
        noticed, tried = 0, list(self.broken(path.read_bytes()))
        for broken in tried:
            for name in ("-wal", "-shm"):
                Path(f"{path}{name}").unlink(missing_ok=True)
            path.write_bytes(broken)
            try:
                assert store.load(WEB) == whole
            except StateError:
                noticed += 1
        assert noticed > len(tried) / 3

    @pytest.mark.parametrize("table", ["stack", "resource", "owed", "intent"])
    def test_a_row_that_went_or_came_is_noticed(
        self, store: SqliteStore, path: Path, whole: StackState, table: str
    ) -> None:
        """SQLite finds nothing wrong with a row that is missing, moved, or there twice; we do."""
        assert whole.serial == 1
        for change in (
            "DELETE FROM ? WHERE id = (SELECT max(id) FROM ?)",
            "UPDATE ? SET id = id + 1000",
            "INSERT INTO ? SELECT id + 1000, body, checksum FROM ? LIMIT 1",
            "UPDATE ? SET checksum = 'x'",
            "UPDATE ? SET body = 7",
        ):
            kept = path.read_bytes()
            connection = sqlite3.connect(path)
            connection.execute(change.replace("?", table))
            connection.commit()
            connection.close()
            with pytest.raises(StateError, match="state recover"):
                store.check()
            path.write_bytes(kept)
        assert store.check()

    def test_a_damaged_structure_is_not_written_into(self, store: SqliteStore, path: Path) -> None:
        """Also where nothing that is recorded is hurt: the next write could be."""
        write(store, *(f"/{number}" for number in range(200)))
        with store.lock("test", 0):
            store.commit(WEB, Commit(drop=[("file", f"/{number}") for number in range(190)]))
        data = bytearray(path.read_bytes())
        trunk = int.from_bytes(data[32:36], "big")
        assert trunk
        data[(trunk - 1) * 4096 + 8 : (trunk - 1) * 4096 + 12] = (2).to_bytes(4, "big")
        path.write_bytes(data)
        assert len(store.load(WEB).records) == 10
        with pytest.raises(StateError, match="state is damaged"):
            write(store, "/new")

    def test_what_a_crash_left_in_the_log_is_one_of_the_commits(self, store: SqliteStore, path: Path) -> None:
        """A log that was cut or hurt ends before the commit that it hurts."""
        with store.lock("test", 0):
            states = {content(store.commit(WEB, Commit([record(f"/{number}")]))) for number in range(4)}
            saved = files(path)
        log = saved["state.db-wal"]
        chance = random.Random(7)  # noqa: S311 - the same each time
        copy = SqliteStore(str(path.parent.parent / "copy" / "state.db"))
        Path(copy.path).parent.mkdir(mode=0o700)
        seen = set()
        for offset in [*range(32), *chance.sample(range(len(log)), 60)]:
            for broken in (log[:offset], log[:offset] + bytes([log[offset] ^ 4]) + log[offset + 1 :]):
                for name, data in saved.items():
                    if not name.endswith("-shm"):
                        (Path(copy.path).parent / name).write_bytes(broken if name.endswith("-wal") else data)
                Path(f"{copy.path}-shm").unlink(missing_ok=True)
                try:
                    found = content(copy.load(WEB))
                except StateError:
                    continue
                assert found in states
                seen.add(found)
        assert len(seen) > 1


class TestGenerations:
    """The last whole states are kept, and come back when they are needed."""

    def test_three_are_kept_of_runs_that_changed_something(self, store: SqliteStore, path: Path) -> None:
        """The newest is the first; a run that changed nothing makes none."""
        for number in range(5):
            write(store, f"/{number}")
        with store.lock("test", 0):
            store.finish_run(WEB, {"run": "nothing"})
        names = sorted(each.name for each in path.parent.glob("state.db.[0-9]"))
        assert names == ["state.db.1", "state.db.2", "state.db.3"]
        found = [line for line in store.check() if "intact, " in line]
        assert [line.rpartition(" ")[2] for line in found] == ["5", "4", "3"]

    @pytest.mark.parametrize("hurt", [0, 1, 2])
    def test_the_newest_whole_one_comes_back(self, store: SqliteStore, path: Path, hurt: int) -> None:
        """What is lost is said, what is damaged is kept aside, and the next run goes on from there."""
        for number in range(4):
            write(store, f"/{number}")
        for name in ["state.db", "state.db.1", "state.db.2"][: hurt + 1]:
            file = path.parent / name
            file.write_bytes(file.read_bytes()[:-4096])
        damaged = path.read_bytes()
        said = "\n".join(store.recover(0))
        state = store.load(WEB)
        assert state.serial == 4 - hurt
        assert ("lost: project web, stack default" in said) == (hurt > 0)
        assert "state is damaged" in said
        aside = next(each for each in path.parent.glob("state.db.damaged-*Z"))
        assert aside.read_bytes() == damaged
        assert write(store, "/new").serial == state.serial + 1
        assert "nothing to recover" in "\n".join(store.recover(0))

    def test_a_log_that_belongs_to_the_damaged_one_is_not_replayed(self, store: SqliteStore, path: Path) -> None:
        """It is moved aside with it."""
        write(store, "/a")
        with store.lock("test", 0):
            store.commit(WEB, Commit([record("/b")]))
            saved = files(path)
        for name, data in saved.items():
            (path.parent / name).write_bytes(data[:4096] if name == "state.db" else data)
        Path(f"{path}.1").write_bytes(saved["state.db.1"])
        Path(f"{path}.2").unlink(missing_ok=True)
        Path(f"{path}.holder").unlink()
        if len(store.recover(0)) > 1:
            assert store.load(WEB).serial in {1, 2}
        assert store.check()

    def test_an_older_database_that_is_whole_is_better_than_none(self, store: SqliteStore, path: Path) -> None:
        """Without generations, what was rolled back stays, and the loss is said."""
        write(store, "/a")
        old = path.read_bytes()
        write(store, "/b")
        for each in (*path.parent.glob("state.db.[0-9]"), *path.parent.glob("state.db-*")):
            each.unlink()
        path.write_bytes(old)
        said = "\n".join(store.recover(0))
        assert "at least up to serial 2" in said
        assert store.load(WEB).serial == 1

    def test_a_damaged_marker_is_written_anew(self, store: SqliteStore, path: Path) -> None:
        """The database was whole; nothing of it is touched."""
        state = write(store, "/a")
        Path(f"{path}.marker").write_bytes(b"nonsense")
        before = path.read_bytes()
        with pytest.raises(StateError, match="state recover"):
            store.load(WEB)
        assert any("stays" in line for line in store.recover(0))
        assert path.read_bytes() == before
        assert store.load(WEB) == state

    def test_where_nothing_is_whole_nothing_is_touched(self, store: SqliteStore, path: Path) -> None:
        """And the message says how to begin anew."""
        write(store, "/a")
        for each in path.parent.glob("state.db*"):
            if each.name in {"state.db", "state.db.1"}:
                each.write_bytes(b"gone")
        before = {name: data for name, data in files(path).items() if name.partition("state.db")[2][:2] in {"", ".1"}}
        with pytest.raises(StateError, match="no intact generation is left"):
            store.recover(0)
        assert {name: data for name, data in files(path).items() if name in before} == before


class TestReaders:
    """Who looks while somebody writes."""

    WRITER = """
import sys
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.model.record import Commit
from resource_api.testing.state_examples import record
store, name = SqliteStore(sys.argv[1]), StackName("web", "default")
for start in range(0, 100, 20):
    with store.lock("write", 10):
        for number in range(start, start + 20):
            store.commit(name, Commit([record(f"/{number}"), record(f"/{number}b")], outputs={"count": number + 1}))
        store.finish_run(name, {"run": str(start)})
"""

    def test_each_sees_one_moment(self, store: SqliteStore, path: Path) -> None:
        """Records, outputs and serial belong together, and never go back."""
        process = subprocess.Popen(
            [sys.executable, "-c", self.WRITER, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        last, seen = 0, set()
        with process:
            while process.poll() is None:
                state = store.load(WEB)
                assert len(state.records) == 2 * state.serial
                assert state.outputs.get("count", 0) == state.serial
                assert state.serial >= last
                last = state.serial
                seen.add(last)
        assert process.returncode == 0
        assert store.load(WEB).serial == 100
        assert len(seen) > 3

    def test_reading_moves_nothing(self, store: SqliteStore, path: Path) -> None:
        """What a killed writer left in the log stays there until the next writer comes."""
        with store.lock("test", 0):
            store.commit(WEB, Commit([record()]))
            saved = files(path)
        for name, data in saved.items():
            (path.parent / name).write_bytes(data)
        Path(f"{path}-shm").unlink()
        for _ in range(2):
            assert SqliteStore(str(path)).load(WEB).serial == 1
        now = files(path)
        assert {name: now[name] for name in ("state.db", "state.db-wal")} == {
            name: saved[name] for name in ("state.db", "state.db-wal")
        }


class TestCost:
    """What a commit writes is what it is about."""

    def test_a_commit_costs_what_it_writes_whatever_is_recorded(self, store: SqliteStore, path: Path) -> None:
        """One resource among ten thousand writes a few pages, not megabytes."""
        some = [Record("file", f"/{n}", f"/{n}", {"content": "x" * 200}, {}, {}) for n in range(10_000)]
        log = Path(f"{path}-wal")
        with store.lock("test", 0):
            store.commit(WEB, Commit(some))
        with store.lock("test", 0):
            store.commit(WEB, Commit(some[5000:5001]))
            assert log.stat().st_size < 10 * 4096
