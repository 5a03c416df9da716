"""The laws of the durable store: damage is never taken for a fresh start, and no commit is lost."""

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
from resource_api.state.sqlite import database
from resource_api.state.sqlite.recovery import Marker, read_marker, write_marker
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.testing.state_compliance import content, record
from tests.unit.state.processes import ROOT, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.record import StackState

WEB: Final = StackName("web", "default")


@pytest.fixture
def path() -> Iterator[Path]:
    """Yield the path of the database, in a directory that does not exist; in memory, where no flush waits."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        yield Path(directory) / "state" / "state.db"


@pytest.fixture
def store(path: Path) -> SqliteStore:
    """Return an empty store."""
    return SqliteStore(str(path))


def write(store: SqliteStore, *names: str, finish: bool = True) -> StackState:
    """Record files in one run."""
    with store.lock("test", 0):
        state = store.commit(WEB, Commit([record(name) for name in names]))
        if finish:
            store.finish_run(WEB, {"run": str(state.serial), "command": "test"})
        return state


def files(path: Path) -> dict[str, bytes]:
    """Return every file in the database's directory with its content."""
    return {entry.name: entry.read_bytes() for entry in sorted(path.parent.iterdir())}


class TestPermissions:
    """Other users can neither read nor write state."""

    @pytest.mark.parametrize("mask", [0, 0o777])
    def test_everything_is_private_whatever_the_umask(self, store: SqliteStore, path: Path, mask: int) -> None:
        """The directory has mode 0700 and each file 0600 from their creation on."""
        path.parent.parent.chmod(0o755)
        before = os.umask(mask)
        try:
            if mask:
                path.parent.mkdir()
                path.parent.chmod(0o700)
            with store.lock("test", 0):
                store.commit(WEB, Commit([record()]))
                modes = {entry.name: entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()}
            write(store, "/b")
            modes |= {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        finally:
            os.umask(before)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert {"state.db", "state.db-wal", "state.db.lock", "state.db.holder", "state.db.marker", "state.db.1"} <= set(
            modes
        )
        assert set(modes.values()) == {0o600}

    def test_a_place_that_others_can_write_to_is_refused(self, store: SqliteStore, path: Path) -> None:
        """A directory or a file; the message contains the command to run."""
        write(store, "/a")
        for item, mode in ((path.parent, 0o770), (path.parent, 0o707), (path, 0o620)):
            st_mode = item.stat().st_mode
            item.chmod(mode)
            with pytest.raises(StateError, match=r"others can write to it.*chmod go-w"):
                store.load(WEB)
            with pytest.raises(StateError, match="others can write to it"), store.lock("test", 0):
                pass
            item.chmod(st_mode)
        assert store.load(WEB).serial == 1

    def test_a_directory_that_all_users_share_is_never_to_be_changed(self, tmp_path: Path) -> None:
        """As ``/tmp``, whoever it belongs to: the message names a directory in it to use, which can be used."""
        shared = tmp_path / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        with pytest.raises(StateError) as refused, SqliteStore(str(shared / "x.db")).lock("test", 0):
            pass
        assert "chmod" not in str(refused.value)
        private = str(refused.value).partition("--state sqlite:")[2]
        assert private == f"{shared}/resource-api/x.db"
        with SqliteStore(private).lock("test", 0):
            pass

    def test_a_place_of_another_user_is_refused(self, store: SqliteStore, path: Path) -> None:
        """Its owner could change it."""
        write(store, "/a")
        for item in (path, path.parent):
            os.chown(item, 12345, -1)
            with pytest.raises(StateError, match=r"belongs to another user.*; name another place with --state"):
                store.load(WEB)
            os.chown(item, 0, -1)

    def test_a_link_instead_of_the_database_is_refused(self, store: SqliteStore, path: Path) -> None:
        """State is not stored at the target of a link."""
        write(store, "/a")
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
        with pytest.raises(StateError, match=r"is not a regular file; .*; name another place with --state"):
            store.load(WEB)

    @pytest.mark.parametrize("path", ["/proc/none", "file/beneath"])
    def test_a_place_that_cannot_be_made_is_named_with_what_to_do(self, tmp_path: Path, path: str) -> None:
        """The directory, the reason of the system, and the option that names another place."""
        (tmp_path / "file").touch()
        unusable = SqliteStore(str(tmp_path / path / "state.db"))
        reason = r"(none|beneath): state cannot be used: .*; name another place with --state sqlite:PATH"
        with pytest.raises(StateError, match=reason), unusable.lock("test", 0):
            pass

    def test_reading_creates_nothing(self, store: SqliteStore, path: Path) -> None:
        """Without recorded state, reading creates no file and no directory."""
        assert store.load(WEB).serial == 0
        assert list(store.stacks()) == []
        assert store.check()
        assert not path.parent.exists()

    def test_reading_leaves_no_file_behind(self, store: SqliteStore, path: Path) -> None:
        """Neither a log nor its index, also where an earlier reader has left an empty one."""
        write(store, "/a")
        names = set(files(path))
        for _ in range(2):
            reader = SqliteStore(str(path))
            assert reader.load(WEB).serial == 1
            assert reader.stacks()
            assert reader.check()
            assert set(files(path)) == names
            Path(f"{path}-wal").touch(0o600)

    @pytest.mark.usefixtures("_unmeasured")
    def test_sqlite_is_imported_with_the_first_database(self, path: Path) -> None:
        """Commands without state do not pay for it."""
        code = (
            "import sys; from resource_api.state.open_store import open_store;"
            "open_store('sqlite:' + sys.argv[1]).stacks(); assert 'sqlite3' not in sys.modules"
        )
        result = run(code, str(path))
        assert result.returncode == 0, result.stderr


class TestMissing:
    """A database that contradicts its marker is damage: exit code 74, and the command that repairs it."""

    @pytest.mark.parametrize(
        "how", ["missing", "missing like its marker", "empty", "short", "zeroed", "rolled back", "another"]
    )
    def test_a_loss_is_never_a_fresh_start(self, store: SqliteStore, path: Path, how: str) -> None:
        """Neither for a reader nor for a writer."""
        write(store, "/a")
        old = path.read_bytes()
        write(store, "/b")
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").unlink(missing_ok=True)
        if how.startswith("missing"):
            path.unlink()
            if how == "missing like its marker":
                Path(f"{path}.marker").unlink()
        elif how == "another":
            sqlite_store = SqliteStore(str(path.parent.parent / "other" / "state.db"))
            write(sqlite_store, "/a")
            write(sqlite_store, "/a")
            write(sqlite_store, "/a")
            shutil.copy(sqlite_store.path, path)
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

    def test_a_kill_while_the_database_is_created_is_no_damage(self, store: SqliteStore, path: Path) -> None:
        """The marker records the creation, whether the file exists already or not."""
        path.parent.mkdir(mode=0o700)
        write_marker(str(path), Marker({}, creating=True))
        (path.parent / "state.db.new").write_bytes(b"half")
        assert store.load(WEB).serial == 0
        database.create(str(path))
        assert store.load(WEB).serial == 0
        assert write(store, "/a").serial == 1
        assert SqliteStore(str(path)).load(WEB).serial == 1

    def test_a_first_commit_is_marked_at_once(self, store: SqliteStore, path: Path) -> None:
        """A loss of the database before the end of the first run is damage too."""
        with store.lock("test", 0):
            store.commit(WEB, Commit([record()]))
            assert read_marker(str(path)) == Marker({WEB: (store.load(WEB).lineage, 1)})

    def test_the_marker_is_updated_after_an_interrupted_run(self, store: SqliteStore, path: Path) -> None:
        """A database newer than its marker is valid; the next run updates the marker."""
        write(store, "/a")
        before = read_marker(str(path))
        after = write(store, "/b")
        assert before is not None
        write_marker(str(path), before)
        assert store.load(WEB).serial == after.serial
        with store.lock("test", 0):
            pass
        updated = read_marker(str(path))
        assert updated is not None
        assert updated.versions[WEB] == (after.lineage, after.serial)

    def test_a_newer_version_is_refused_and_nothing_written(self, store: SqliteStore, path: Path) -> None:
        """Both versions are named; no file changes."""
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
    """Whatever bytes change, the result is the same state or ``StateError``."""

    @pytest.fixture
    def intact(self, store: SqliteStore, path: Path) -> StackState:
        """Record something in every table and leave one complete file."""
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
        """Yield the file with a flipped bit, with a block of zeros, and truncated."""
        chance = random.Random(7)  # noqa: S311 - the same each time
        consumed = [offset for offset in range(len(data)) if data[offset]]
        for offset in {*range(100), *chance.sample(consumed, 900), *chance.sample(range(len(data)), 100)}:
            yield data[:offset] + bytes([data[offset] ^ (1 << chance.randrange(8))]) + data[offset + 1 :]
        for offset in range(0, len(data), 512):
            yield data[:offset] + bytes(512) + data[offset + 512 :]
            yield data[:offset]

    def test_every_damage_is_detected(self, store: SqliteStore, path: Path, intact: StackState) -> None:
        """Every flipped bit, block of zeros and truncation either leaves the state unchanged or is reported."""
        detected, damaged = 0, list(self.broken(path.read_bytes()))
        for broken in damaged:
            for name in ("-wal", "-shm"):
                Path(f"{path}{name}").unlink(missing_ok=True)
            path.write_bytes(broken)
            try:
                assert store.load(WEB) == intact
            except StateError:
                detected += 1
        assert detected > len(damaged) / 3

    @pytest.mark.parametrize("table", ["stack", "resource", "owed", "intent"])
    def test_a_missing_or_surplus_row_is_detected(
        self, store: SqliteStore, path: Path, intact: StackState, table: str
    ) -> None:
        """SQLite accepts a row that is missing, moved or duplicated; the tallies do not."""
        assert intact.serial == 1
        for change in (
            "DELETE FROM ? WHERE id = (SELECT max(id) FROM ?)",
            "UPDATE ? SET id = id + 1000",
            "INSERT INTO ? SELECT id + 1000, body, checksum FROM ? LIMIT 1",
            "UPDATE ? SET checksum = 'x'",
            "UPDATE ? SET body = 7",
        ):
            data = path.read_bytes()
            connection = sqlite3.connect(path)
            connection.execute(change.replace("?", table))
            connection.commit()
            connection.close()
            with pytest.raises(StateError, match="state recover"):
                store.check()
            path.write_bytes(data)
        assert store.check()

    def test_a_damaged_structure_is_not_written_into(self, store: SqliteStore, path: Path) -> None:
        """Also if every row is intact: the next write could do harm."""
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

    def test_a_damaged_log_gives_one_of_the_commits(self, store: SqliteStore, path: Path) -> None:
        """A truncated or damaged log ends before the damaged commit."""
        with store.lock("test", 0):
            states = {content(store.commit(WEB, Commit([record(f"/{number}")]))) for number in range(4)}
            saved = files(path)
        log = saved["state.db-wal"]
        chance = random.Random(7)  # noqa: S311 - the same each time
        copy = SqliteStore(str(path.parent.parent / "copy" / "state.db"))
        Path(copy.path).parent.mkdir(mode=0o700)
        observed = set()
        for offset in [*range(32), *chance.sample(range(len(log)), 60)]:
            for broken in (log[:offset], log[:offset] + bytes([log[offset] ^ 4]) + log[offset + 1 :]):
                for name, data in saved.items():
                    if not name.endswith("-shm"):
                        (Path(copy.path).parent / name).write_bytes(broken if name.endswith("-wal") else data)
                Path(f"{copy.path}-shm").unlink(missing_ok=True)
                try:
                    text = content(copy.load(WEB))
                except StateError:
                    continue
                assert text in states
                observed.add(text)
        assert len(observed) > 1


class TestGenerations:
    """The last intact databases are kept and restored after damage."""

    def test_three_are_kept_of_runs_that_changed_something(self, store: SqliteStore, path: Path) -> None:
        """The newest is number 1; a run that changed nothing creates none."""
        for number in range(5):
            write(store, f"/{number}")
        with store.lock("test", 0):
            store.finish_run(WEB, {"run": "nothing"})
        names = sorted(entry.name for entry in path.parent.glob("state.db.[0-9]"))
        assert names == ["state.db.1", "state.db.2", "state.db.3"]
        result = [line for line in store.check() if "intact, " in line]
        assert [line.rpartition(" ")[2] for line in result] == ["5", "4", "3"]

    @pytest.mark.parametrize("damaged", [0, 1, 2])
    def test_the_newest_intact_one_is_restored(self, store: SqliteStore, path: Path, damaged: int) -> None:
        """The loss is reported, the damaged file is kept, and the next run continues from there."""
        for number in range(4):
            write(store, f"/{number}")
        for name in ["state.db", "state.db.1", "state.db.2"][: damaged + 1]:
            file = path.parent / name
            file.write_bytes(file.read_bytes()[:-4096])
        content_before = path.read_bytes()
        report = "\n".join(store.recover(0))
        state = store.load(WEB)
        assert state.serial == 4 - damaged
        assert ("lost: project web, stack default" in report) == (damaged > 0)
        assert "state is damaged" in report
        aside = next(entry for entry in path.parent.glob("state.db.damaged-*Z"))
        assert aside.read_bytes() == content_before
        assert write(store, "/new").serial == state.serial + 1
        assert "nothing to recover" in "\n".join(store.recover(0))

    def test_a_database_that_is_missing_with_its_marker_is_restored(self, store: SqliteStore, path: Path) -> None:
        """Only a copy shows then that there was a database."""
        write(store, "/a")
        for name in (path, Path(f"{path}.marker")):
            name.unlink()
        with pytest.raises(StateError, match=r"it and its marker are missing, and .*state\.db\.1 is a copy of it"):
            store.load(WEB)
        assert "it is unknown how much is lost" in "\n".join(store.recover(0))
        assert store.load(WEB).serial == 1

    @pytest.mark.parametrize("missing", [False, True])
    def test_the_commands_for_an_empty_state_lead_to_one(
        self, store: SqliteStore, path: Path, *, missing: bool
    ) -> None:
        """They move every file aside that would be damage without the others."""
        for number in range(2):
            write(store, f"/{number}")
        for file in (path, Path(f"{path}.1"), Path(f"{path}.2")):
            file.write_bytes(b"damaged")
        if missing:
            path.unlink()
            Path(f"{path}.marker").unlink()
        with pytest.raises(StateError, match="no intact generation is left") as caught:
            store.recover(0)
        subprocess.run(["sh", "-ec", str(caught.value).partition("run: ")[2]], check=True)
        assert store.load(WEB).serial == 0
        assert write(store, "/new").serial == 1

    @pytest.mark.parametrize("generations", ["removed", "damaged", "intact"])
    @pytest.mark.parametrize("lost", ["damaged", "missing", "older"])
    def test_what_recover_will_do_is_said_before(
        self, store: SqliteStore, path: Path, lost: str, generations: str
    ) -> None:
        """``check`` promises a restoration only where an intact database is left, damaged generations or none."""
        write(store, "/a")
        old = path.read_bytes()
        write(store, "/b")
        path.write_bytes(old if lost == "older" else b"damaged")
        if lost == "missing":
            path.unlink()
        for file in (Path(f"{path}.1"), Path(f"{path}.2")):
            if generations == "removed":
                file.unlink()
            elif generations == "damaged":
                file.write_bytes(b"damaged")
        with pytest.raises(StateError) as caught:
            store.check()
        effect = str(caught.value).partition("'resource-api state recover' ")[2]
        if generations != "intact" and lost != "older":
            assert effect == "says how to start again, because no intact generation is left"
            with pytest.raises(StateError, match="To start again with an empty state, run: mv"):
                store.recover(0)
        elif generations == "removed":
            assert effect == "takes it as it is, because no newer copy of it is left"
            assert "the database itself is intact and stays" in "\n".join(store.recover(0))
        else:
            assert effect == "restores the newest intact generation"
            assert store.recover(0)
            assert store.check()

    def test_unreadable_runs_are_removed_from_the_history(self, store: SqliteStore, path: Path) -> None:
        """Nothing else is lost: the state is newer than that of any generation."""
        for number in range(3):
            write(store, f"/{number}")
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE run SET body = x'00' WHERE id = 2")
        connection.close()
        for read in (store.check, lambda: store.history(WEB)):
            with pytest.raises(StateError, match="recover' removes such runs from the history"):
                read()
        before = store.load(WEB)
        assert store.recover(0) == ["removed from the history: 1 run that cannot be read"]
        assert (store.load(WEB), [run["run"] for run in store.history(WEB)]) == (before, ["1", "3"])
        assert "nothing to recover" in store.recover(0)[0]
        assert store.check()

    def test_the_commands_for_an_empty_state_move_the_log_too(self, tmp_path: Path) -> None:
        """It would be read as that of the next database; a path with a blank is quoted."""
        path = tmp_path / "my state" / "state.db"
        store = SqliteStore(str(path))
        with store.lock("test", 0):
            store.commit(WEB, Commit([record("/a")]))
            log = Path(f"{path}-wal").read_bytes()
        for name in (path, Path(f"{path}.1")):
            name.write_bytes(b"damaged")
        Path(f"{path}-wal").write_bytes(log)
        with pytest.raises(StateError, match="no intact generation is left") as caught:
            store.recover(0)
        subprocess.run(["sh", "-ec", str(caught.value).partition("run: ")[2]], check=True)
        assert not Path(f"{path}-wal").exists()
        assert write(store, "/new").serial == 1

    def test_the_log_of_a_damaged_database_is_not_replayed(self, store: SqliteStore, path: Path) -> None:
        """It is renamed with it."""
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

    def test_an_older_intact_database_is_kept_without_generations(self, store: SqliteStore, path: Path) -> None:
        """The database that was rolled back stays, and the loss is reported."""
        write(store, "/a")
        old = path.read_bytes()
        write(store, "/b")
        for item in (*path.parent.glob("state.db.[0-9]"), *path.parent.glob("state.db-*")):
            item.unlink()
        path.write_bytes(old)
        report = "\n".join(store.recover(0))
        assert "at least up to serial 2" in report
        assert store.load(WEB).serial == 1

    def test_a_damaged_marker_is_rewritten(self, store: SqliteStore, path: Path) -> None:
        """The database is intact and is not changed."""
        state = write(store, "/a")
        Path(f"{path}.marker").write_bytes(b"nonsense")
        before = path.read_bytes()
        with pytest.raises(StateError, match="state recover"):
            store.load(WEB)
        assert any("stays" in line for line in store.recover(0))
        assert path.read_bytes() == before
        assert store.load(WEB) == state

    def test_without_an_intact_copy_nothing_is_changed(self, store: SqliteStore, path: Path) -> None:
        """The message contains the commands to start again."""
        write(store, "/a")
        for entry in path.parent.glob("state.db*"):
            if entry.name in {"state.db", "state.db.1"}:
                entry.write_bytes(b"gone")
        before = {name: data for name, data in files(path).items() if name.partition("state.db")[2][:2] in {"", ".1"}}
        with pytest.raises(StateError, match="no intact generation is left"):
            store.recover(0)
        assert {name: data for name, data in files(path).items() if name in before} == before


class TestReaders:
    """Readers beside a writer."""

    WRITER = """
import sys
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.model.record import Commit
from resource_api.testing.state_compliance import record
store, name = SqliteStore(sys.argv[1]), StackName("web", "default")
for start in range(0, 100, 20):
    with store.lock("write", 10):
        for number in range(start, start + 20):
            store.commit(name, Commit([record(f"/{number}"), record(f"/{number}b")], outputs={"count": number + 1}))
        store.finish_run(name, {"run": str(start)})
"""

    def test_each_read_is_consistent(self, store: SqliteStore, path: Path) -> None:
        """Records, outputs and serial are of one commit, and the serial never decreases."""
        process = subprocess.Popen(
            [sys.executable, "-c", self.WRITER, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        last, observed = 0, set()
        with process:
            while process.poll() is None:
                state = store.load(WEB)
                assert len(state.records) == 2 * state.serial
                assert state.outputs.get("count", 0) == state.serial
                assert state.serial >= last
                last = state.serial
                observed.add(last)
        assert process.returncode == 0
        assert store.load(WEB).serial == 100
        assert len(observed) > 3

    def test_reading_changes_no_file(self, store: SqliteStore, path: Path) -> None:
        """The log that a killed writer left stays until the next writer."""
        with store.lock("test", 0):
            store.commit(WEB, Commit([record()]))
            saved = files(path)
        for name, data in saved.items():
            (path.parent / name).write_bytes(data)
        Path(f"{path}-shm").unlink()
        for _ in range(2):
            assert SqliteStore(str(path)).load(WEB).serial == 1
        current = files(path)
        assert {name: current[name] for name in ("state.db", "state.db-wal")} == {
            name: saved[name] for name in ("state.db", "state.db-wal")
        }


class TestCost:
    """The cost of a commit."""

    def test_the_cost_of_a_commit_is_independent_of_the_state(self, store: SqliteStore, path: Path) -> None:
        """A commit of one resource among ten thousand writes a few pages."""
        some = [Record("file", f"/{n}", f"/{n}", {"content": "x" * 200}, {}, {}) for n in range(10_000)]
        log = Path(f"{path}-wal")
        with store.lock("test", 0):
            store.commit(WEB, Commit(some))
        with store.lock("test", 0):
            store.commit(WEB, Commit(some[5000:5001]))
            assert log.stat().st_size < 10 * 4096
