"""Both state stores obey the laws of stores; the URL of a store; the marker."""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from resource_api.model.record import Commit
from resource_api.model.values.errors import StateError, UsageError
from resource_api.state.encryption import keys
from resource_api.state.open_store import default_path, open_store
from resource_api.state.sqlite.recovery import Marker, read_marker, write_marker
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import MemoryStore, StackName
from resource_api.testing.state_compliance import SharedStateCompliance, StateCompliance, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resource_api.state.store import StateStore


class TestMemoryStore(StateCompliance):
    """The store in memory obeys the laws of every store."""

    @contextmanager
    def opened(self) -> Iterator[Callable[[], StateStore]]:
        store = MemoryStore()
        yield lambda: store


class TestSqliteStore(SharedStateCompliance):
    """The durable store obeys the laws of shared stores."""

    @contextmanager
    def opened(self) -> Iterator[Callable[[], StateStore]]:
        with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
            yield lambda: SqliteStore(f"{directory}/state.db")


class TestEncryptedStore(SharedStateCompliance):
    """With a key it obeys the same laws."""

    @contextmanager
    def opened(self) -> Iterator[Callable[[], StateStore]]:
        with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
            keys.create_key_file(f"{directory}/key")
            yield lambda: SqliteStore(f"{directory}/state/state.db", keys.key_from_url(f"file:{directory}/key", {}))


class TestUrl:
    """The URL after ``--state``."""

    @pytest.mark.parametrize("url", ["memory:", "sqlite::memory:"])
    def test_memory_keeps_nothing(self, url: str) -> None:
        """``memory:`` is the store in this process; as SQLite itself writes it, too."""
        assert isinstance(open_store(url), MemoryStore)

    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("memory", "did you mean 'memory:'?"),
            (":memory:", "did you mean 'memory:'?"),
            ("sqlite:file:x", "write sqlite:PATH, postgresql://HOST/DATABASE, or memory: to keep nothing"),
            ("sqlite::x", "write sqlite:PATH, postgresql://HOST/DATABASE, or memory: to keep nothing"),
            ("sqlite:~no-such-user/x", "there is no user 'no-such-user'; write ./~ for a file of this name"),
        ],
    )
    def test_what_sqlite_takes_for_something_else_is_no_path(self, url: str, words: str) -> None:
        """Nor is the home of a user who does not exist; the message gives the correct form."""
        with pytest.raises(UsageError, match=re.escape(words)):
            open_store(url)

    def test_a_path_may_begin_with_a_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A shell does not replace it behind a colon."""
        monkeypatch.setenv("HOME", str(tmp_path))
        store = open_store("sqlite:~/a/state.db")
        assert isinstance(store, SqliteStore)
        assert store.path == str(tmp_path / "a" / "state.db")

    def test_a_path_with_two_slashes_is_a_path(self, tmp_path: Path) -> None:
        """SQLite takes the name behind them for a host."""
        store, name = open_store(f"sqlite:/{tmp_path}/state.db"), StackName("web", "default")
        with store.lock("test", 0):
            store.commit(name, Commit([record()]))
        assert open_store(f"sqlite:{tmp_path}/state.db").load(name).serial == 1

    @pytest.mark.parametrize("path", ["state.db", "/srv/a b/state.db", "odd?x#y%41.db"])
    def test_sqlite_names_a_file(self, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The path is taken literally, relative to the working directory of the command."""
        monkeypatch.chdir(tmp_path)
        store = open_store(f"sqlite:{path}")
        monkeypatch.chdir("/")
        assert isinstance(store, SqliteStore)
        assert store.path == str(tmp_path / path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("url", ["", "state.db", "sqlite:", "memory:x", "postgres://x", "SQLITE:x"])
    def test_anything_else_is_wrong_usage(self, url: str) -> None:
        """The message lists the valid forms."""
        with pytest.raises(UsageError, match="write sqlite:PATH, "):
            open_store(url)

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:sesame@db/state",
            "postgresql://me:@db/state",
            "postgresql://me@db/state?password=sesame",
            "postgresql://me@db/state?sslpass%77ord=sesame",
            "postgresql://me:ses/ame@db/state",
            "postgresql://me:ses?ame@db/state",
            "postgresql://me:ses#ame@db/state",
            "postgresql://me:5432/sesame@db/state",
            "postgresql://me@db:sesame/state",
            "postgresql://me@db/state?sesame=1",
            "postgresql:me:sesame@db",
            "postgres://me:sesame@db/state",
            "PostgreSQL://me:sesame@db/state",
            "mysql://me:sesame@db/state",
        ],
    )
    def test_a_password_in_a_url_is_refused_and_not_shown(self, url: str) -> None:
        """Nor is any part of a URL that may be one, wherever a character in it ends a part of the URL."""
        with pytest.raises(UsageError) as caught:
            open_store(url)
        assert not any(part in str(caught.value) for part in ("ses", "ame@", "sesame"))

    def test_a_refused_password_names_its_place(self) -> None:
        """The message says which file holds passwords, and in which form."""
        with pytest.raises(UsageError, match=r"PGPASSFILE .*HOST:PORT:DATABASE:USER:PASSWORD"):
            open_store("postgresql://me:sesame@db/state")

    def test_a_path_without_a_scheme_is_refused_with_a_hint(self) -> None:
        """The hint is the URL of that path."""
        with pytest.raises(UsageError, match=r"did you mean 'sqlite:\./state\.db'"):
            open_store("./state.db")

    def test_the_default_is_the_users_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For root it is that of the machine; a relative XDG_STATE_HOME is ignored; without a home it is an error."""
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert default_path({}) == "/var/lib/resource-api/state.db"
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setenv("HOME", "/home/me")
        assert default_path({"XDG_STATE_HOME": "/x"}) == "/x/resource-api/state.db"
        assert default_path({"XDG_STATE_HOME": "x"}) == "/home/me/.local/state/resource-api/state.db"
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
        with pytest.raises(UsageError, match="no home directory"):
            default_path({})


class TestMarker:
    """The marker beside the database."""

    KNOWN = Marker({StackName("web", "default"): ("ab" * 16, 7), StackName("db", "x"): ("cd" * 16, 1)})

    def test_it_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        """It is private whatever the umask, and no other file remains."""
        path = str(tmp_path / "state.db")
        assert read_marker(path) is None
        before = os.umask(0o777)
        try:
            write_marker(path, self.KNOWN)
            write_marker(path, self.KNOWN._replace(creating=True))
        finally:
            os.umask(before)
        assert read_marker(path) == self.KNOWN._replace(creating=True)
        assert [entry.name for entry in tmp_path.iterdir()] == ["state.db.marker"]
        assert (tmp_path / "state.db.marker").stat().st_mode & 0o777 == 0o600

    def test_every_changed_byte_is_detected(self, tmp_path: Path) -> None:
        """Whatever byte is changed or removed, the marker is unchanged or reported as damaged."""
        path, file = str(tmp_path / "state.db"), tmp_path / "state.db.marker"
        write_marker(path, self.KNOWN)
        whole = file.read_bytes()
        broken = [whole[:cut] for cut in range(len(whole) - 1)]
        broken += [whole[:i] + bytes([whole[i] ^ bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in (1, 128)]
        shapes: list[object] = [[], {}, None, [1, 2], ["x", {}]]
        broken += [json.dumps(shape).encode() for shape in shapes]
        detected = 0
        for data in broken:
            file.write_bytes(data)
            try:
                assert read_marker(path) == self.KNOWN
            except StateError as error:
                assert "state recover" in str(error)  # noqa: PT017 - both outcomes are valid
                detected += 1
        assert detected > len(broken) - 5
