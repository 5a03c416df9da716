"""Leases, lost connections and wrong databases of the store on PostgreSQL, on a real server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.model.record import Commit, Intent
from resource_api.model.values.errors import StateError, StateLocked, StateLost
from resource_api.state.postgresql.store import PostgresqlStore
from resource_api.testing.state_compliance import OTHER, WEB, record
from tests.postgresql_server import Server, Wire, free_port
from tests.unit.state.processes import ROOT
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api.state.store import Store

pytestmark = pytest.mark.process

#: Seconds of a lease in tests that let one end.
SHORT: Final = 0.5
INTENT: Final = Intent("1", "file", "/a", "/a", "create")


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    """Yield the URL of an empty database."""
    with server.database() as url:
        yield url


def expire(server: Server, url: str) -> None:
    """Let every lease in a database end, as if its holder had not renewed it."""
    server.sql("UPDATE resource_api.stack SET expires = clock_timestamp() - interval '1 s'", url.rpartition("/")[2])


def names(store: Store) -> list[object]:
    """Return the names of the recorded files."""
    return [name for _, name in store.load(WEB).records]


def send(processes: list[int], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may have ended."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


class TestLease:
    """Of two runs that believe to hold a lock, the overtaken one writes nothing."""

    WRITES: Final[dict[str, Callable[[Store], object]]] = {
        "commit": lambda store: store.commit(WEB, Commit([record("/stale")])),
        "record_intents": lambda store: store.record_intents(WEB, [INTENT]),
        "finish_run": lambda store: store.finish_run(WEB, {"run": "stale"}),
        "overwrite": lambda store: store.overwrite(WEB, store.load(WEB)),
        "rename": lambda store: store.rename(WEB, OTHER),
        "remove": lambda store: store.remove(WEB),
        "rekey": lambda store: store.rekey(WEB, None),
    }

    @pytest.mark.parametrize("write", WRITES)
    def test_a_stale_writer_is_refused(self, server: Server, url: str, write: str) -> None:
        """Whatever it writes, also after the other run has ended; the error names that run, and nothing follows it."""
        stale, other = PostgresqlStore(url), PostgresqlStore(url)
        with stale.lock("old", 0):
            stale.commit(WEB, Commit([record("/a")]))
            expire(server, url)
            with other.lock("new", 0):
                other.commit(WEB, Commit([record("/b")]))
                with pytest.raises(StateLost, match=r"lost the lock to pid \d+ .*'new' since") as caught:
                    self.WRITES[write](stale)
            assert caught.value.exit_code == 75
            with pytest.raises(StateLost):
                self.WRITES["commit"](stale)
        state = PostgresqlStore(url).load(WEB)
        assert ([key[1] for key in state.records], state.serial, state.intents) == (["/a", "/b"], 2, {})

    def test_a_lease_is_renewed_while_its_run_lives(self, url: str) -> None:
        """Also if it writes nothing for the time of several leases."""
        store, other = PostgresqlStore(url, lease_seconds=SHORT), PostgresqlStore(url)
        with store.lock("slow", 0):
            store.claim(WEB, 0)
            with other.lock("other", 0), pytest.raises(StateLocked, match="running 'slow' since"):
                other.claim(WEB, 4 * SHORT)
            store.commit(WEB, Commit([record("/a")]))
        assert names(other) == ["/a"]

    def test_of_many_at_once_one_gets_the_lock(self, url: str) -> None:
        """Also where none of them finds a table."""
        stores = [PostgresqlStore(url) for _ in range(12)]
        start, held = threading.Barrier(len(stores)), []
        done = threading.Event()

        def race(store: PostgresqlStore) -> None:
            with store.lock("race", 0):
                start.wait()
                try:
                    store.claim(WEB, 0)
                except StateLocked:
                    return
                held.append(store)
                done.wait(20)

        threads = [threading.Thread(target=race, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        wait_until(lambda: sum(thread.is_alive() for thread in threads) == 1)
        done.set()
        for thread in threads:
            thread.join()
        assert len(held) == 1

    def test_two_stacks_are_written_side_by_side(self, url: str) -> None:
        """Each has its own lock; a reader of one sees it without the other."""
        store, other = PostgresqlStore(url), PostgresqlStore(url)
        with store.lock("one", 0), other.lock("two", 0):
            store.claim(WEB, 0)
            other.claim(OTHER, 0)
            for number in range(3):
                store.commit(WEB, Commit([record(f"/{number}")]))
                other.commit(OTHER, Commit([record(f"/{number}")]))
            assert "'one'" not in store.holder(WEB)
        assert list(store.stacks()) == sorted([WEB, OTHER])

    def test_who_waits_gets_the_lock_when_it_is_released(self, url: str) -> None:
        """A notification shortens the pause between two attempts."""
        store, other = PostgresqlStore(url), PostgresqlStore(url)
        with store.lock("first", 0):
            store.claim(WEB, 0)
            waiting = threading.Thread(target=lambda: _claim(other, 20))
            waiting.start()
            time.sleep(0.3)
            assert waiting.is_alive()
        began = time.monotonic()
        waiting.join()
        assert time.monotonic() - began < 1.5

    def test_a_stack_of_which_nothing_was_recorded_leaves_no_row(self, server: Server, url: str) -> None:
        """A claim alone is no state."""
        store = PostgresqlStore(url)
        with store.lock("test", 0):
            store.claim(WEB, 0)
            store.finish_run(WEB, {"run": "1"})
        assert server.sql("SELECT count(*) FROM resource_api.stack", url.rpartition("/")[2]) == [(0,)]
        assert [run["run"] for run in store.history(WEB)] == ["1"]


def _claim(store: Store, seconds: float) -> None:
    with store.lock("second", 0):
        store.claim(WEB, seconds)


HOLDER: Final = """
import sys, time
from resource_api.model.record import Commit
from resource_api.state.postgresql.store import PostgresqlStore
from resource_api.testing.state_compliance import WEB, record
store = PostgresqlStore(sys.argv[1], lease_seconds=float(sys.argv[2]))
with store.lock("held", 0):
    store.commit(WEB, Commit([record("/first")]))
    print("held", flush=True)
    sys.stdin.readline()
    try:
        store.commit(WEB, Commit([record("/late")]))
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("written", flush=True)
"""


@pytest.fixture
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that holds the lock, and writes again when it gets a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url, str(SHORT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


class TestHolder:
    """A holder that was killed, frozen, or closed with its laptop."""

    def test_a_frozen_holder_is_overtaken_and_refused_when_it_wakes(
        self, url: str, holder: subprocess.Popen[str]
    ) -> None:
        """It has the lock until its lease ends; what it writes then is not taken."""
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.send_signal(signal.SIGSTOP)
        store = PostgresqlStore(url)
        with store.lock("test", 0):
            store.claim(WEB, 10)
            store.commit(WEB, Commit([record("/mine")]))
            holder.send_signal(signal.SIGCONT)
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert holder.stdout.readline().startswith("StateLost lost the lock to pid")
        assert names(store) == ["/first", "/mine"]

    def test_a_killed_holder_of_this_machine_holds_nothing(self, url: str, holder: subprocess.Popen[str]) -> None:
        """Its number and its start tell that it is gone."""
        holder.kill()
        holder.wait()
        store = PostgresqlStore(url)
        assert store.holder() == ""
        with store.lock("test", 0):
            store.claim(WEB, 0)

    def test_a_killed_holder_of_another_machine_holds_the_lock_until_its_lease_ends(
        self, server: Server, url: str, holder: subprocess.Popen[str]
    ) -> None:
        """The message names the machine, and the seconds that remain."""
        other = """UPDATE resource_api.stack SET holder = holder || '{"boot": "x", "host": "laptop"}'"""
        holder.kill()
        server.sql(other, url.rpartition("/")[2])
        store = PostgresqlStore(url)
        with store.lock("test", 0):
            with pytest.raises(StateLocked, match=r"pid \d+ \(\w+ on laptop\) .*'held' since .* holds it for 1 s more"):
                store.claim(WEB, 0)
            store.claim(WEB, 10)


class TestLostConnection:
    """A connection that ends costs a run time and nothing else, or ends it without half a write."""

    @pytest.fixture
    def wire(self, server: Server) -> Iterator[Wire]:
        """Yield a connection to the server that can be cut."""
        wire = Wire(server.port)
        yield wire
        wire.close()

    @staticmethod
    def run(store: Store) -> None:
        """Make one run that records and forgets resources."""
        with store.lock("test", 10):
            store.claim(WEB, 10)
            store.load(WEB)
            store.record_intents(WEB, [INTENT])
            store.commit(WEB, Commit([record("/a"), record("/b")], resolved=[INTENT.key]))
            store.commit(WEB, Commit([record("/c")], drop=[record("/a").key]))
            store.overwrite(WEB, store.load(WEB))
            store.finish_run(WEB, {"run": "1"})
            store.save_run("1", b"{}")

    @pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
    def test_a_cut_at_any_statement_costs_nothing(self, server: Server, wire: Wire, *, answered: bool) -> None:
        """The statement is sent again on a new connection; one that was done is not done twice."""
        for number in count(1):
            with server.database() as url:
                store = PostgresqlStore(url.replace(f":{server.port}/", f":{wire.port}/"), lease_seconds=5)
                wire.cut(number, answered=answered)
                try:
                    self.run(store)
                except StateError:
                    assert number <= 3, "only the first connection must come about"
                    self.run(store)
                ended = wire.count < number
                state = PostgresqlStore(url).load(WEB)
                assert ([key[1] for key in state.records], state.serial, state.intents) == (["/b", "/c"], 2, {})
                assert [run["run"] for run in store.history()] == ["1"]
                if ended:
                    break
        assert number > 12

    @pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
    def test_a_server_that_stays_away_ends_the_run(self, server: Server, wire: Wire, *, answered: bool) -> None:
        """The state is that before or after a commit, and the next run completes it."""
        for number in count(1):
            with server.database() as url:
                store = PostgresqlStore(url.replace(f":{server.port}/", f":{wire.port}/"), lease_seconds=0.2)
                wire.cut(number, answered=answered, stays=True)
                with suppress(StateError, OSError):
                    self.run(store)
                ended = wire.count < number
                wire.restore()
                direct = PostgresqlStore(url)
                assert names(direct) in ([], ["/a", "/b"], ["/b", "/c"])
                direct.check()
                self.run(direct)
                assert names(direct) == ["/b", "/c"]
                if ended:
                    break
        assert number > 12

    def test_a_commit_is_one_journey(self, server: Server, url: str, wire: Wire) -> None:
        """So are the intents before it, and the load of a stack; a run adds six for its connection and its lock."""
        store = PostgresqlStore(url.replace(f":{server.port}/", f":{wire.port}/"))
        with store.lock("first", 0):
            store.commit(WEB, Commit([record(f"/{number}") for number in range(100)]))
            wire.restore()
            store.record_intents(WEB, [INTENT])
            assert wire.count == 1
            store.commit(WEB, Commit([record("/a")], drop=[record("/0").key], resolved=[INTENT.key]))
            assert wire.count == 2
        wire.restore()
        store.load(WEB)
        assert wire.count == 1
        other = PostgresqlStore(url.replace(f":{server.port}/", f":{wire.port}/"))
        wire.restore()
        with other.lock("second", 0):
            other.claim(WEB, 0)
            other.load(WEB)
            other.finish_run(WEB, {"run": "2"})
        assert wire.count == 2 + 2 + 1 + 1 + 1 + 1

    def test_a_reader_sees_whole_commits_while_another_writes(self, url: str) -> None:
        """Rows that are written together are read together."""
        store, reader = PostgresqlStore(url), PostgresqlStore(url)
        ended = threading.Event()

        def write() -> None:
            with store.lock("test", 0):
                for number in range(60):
                    store.commit(WEB, Commit([record(f"/{number}/a"), record(f"/{number}/b")]))
            ended.set()

        thread = threading.Thread(target=write)
        thread.start()
        counts = []
        while not ended.is_set():
            state = reader.load(WEB)
            counts.append(len(state.records))
            assert len(state.records) == 2 * state.serial
        thread.join()
        assert len(set(counts)) > 3

    def test_a_connection_without_answers_is_replaced(self, server: Server, wire: Wire) -> None:
        """As where a network drops packets: after the time of a lease the statement is sent again, and done once."""
        with server.database() as url:
            store = PostgresqlStore(url.replace(f":{server.port}/", f":{wire.port}/"), lease_seconds=SHORT)
            with store.lock("test", 0):
                store.commit(WEB, Commit([record("/a")]))
                wire.freeze(1)
                assert store.commit(WEB, Commit([record("/b")])).serial == 2
            wire.restore()
            assert names(store) == ["/a", "/b"]
            assert store.load(WEB).serial == 2

    def test_a_client_that_freezes_in_a_transaction_is_overtaken(self, server: Server, wire: Wire) -> None:
        """The server ends its transaction, so that its rows are not locked for ever; nothing of it was written."""
        for number in range(1, 6):
            with server.database() as url:
                store = PostgresqlStore(url.replace(f":{server.port}/", f":{wire.port}/"), lease_seconds=SHORT)
                other = PostgresqlStore(url)

                counts = threading.Event()

                def overwrite(store: Store = store, number: int = number, counts: threading.Event = counts) -> None:
                    with suppress(StateError), store.lock("frozen", 0):
                        store.commit(WEB, Commit([record("/a")]))
                        state = store.load(WEB)
                        wire.freeze(number)
                        counts.set()
                        store.overwrite(WEB, state._replace(records={}))

                frozen = threading.Thread(target=overwrite)
                frozen.start()
                assert counts.wait(20)
                wait_until(lambda number=number: wire.count >= number)
                with other.lock("other", 0):
                    other.claim(WEB, 20)
                    assert names(other) in (["/a"], [])
                    other.commit(WEB, Commit([record("/b")]))
                wire.restore()
                frozen.join()
                assert names(other) in (["/a", "/b"], ["/b"])

    def test_a_restarted_server_costs_nothing(self) -> None:
        """A run goes on where it was, with its lock."""
        server = Server("fsync=on")
        try:
            with server.database() as url:
                store = PostgresqlStore(url)
                with store.lock("test", 0):
                    store.commit(WEB, Commit([record("/a")]))
                    server.stop(signal.SIGINT)
                    ended = threading.Event()
                    restart = threading.Timer(0.5, lambda: (server.start(), ended.wait()))
                    restart.start()
                    store.commit(WEB, Commit([record("/b")]))
                    ended.set()
                    restart.join()
                    server.stop(signal.SIGQUIT)
                    server.start()
                    store.finish_run(WEB, {"run": "1"})
                assert names(store) == ["/a", "/b"]
                assert store.holder() == ""
        finally:
            server.remove()

    def test_a_server_that_hangs_ends_the_run(self) -> None:
        """A statement takes no longer than a lease."""
        server = Server()
        processes = [server.process.pid]
        try:
            with server.database() as url:
                store = PostgresqlStore(f"{url}?connect_timeout=2", lease_seconds=SHORT)
                with store.lock("test", 0):
                    store.commit(WEB, Commit([record("/a")]))
                    text = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
                    processes += map(int, text.split())
                    send(processes, signal.SIGSTOP)
                    with pytest.raises(StateError, match="state cannot be used") as caught:
                        store.commit(WEB, Commit([record("/b")]))
                assert caught.value.exit_code == 74
                send(processes, signal.SIGCONT)
                assert names(store) in (["/a"], ["/a", "/b"])
        finally:
            send(processes, signal.SIGCONT)
            server.remove()

    def test_a_session_that_the_server_ends_costs_nothing(self, server: Server, url: str) -> None:
        """As an administrator, or a limit on idle sessions, does."""
        store = PostgresqlStore(url)
        with store.lock("test", 0):
            for number in range(3):
                store.commit(WEB, Commit([record(f"/{number}")]))
                server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        assert len(names(store)) == 3


class TestWrongDatabase:
    """What cannot be used is a clear error (74), and nothing is written."""

    @pytest.fixture
    def port(self, server: Server) -> int:
        """Return the port of the server, which has a role with a password that may do nothing."""
        server.sql("DROP ROLE IF EXISTS ra_guest")
        server.sql("CREATE ROLE ra_guest LOGIN PASSWORD 'sesame'")
        return server.port

    @staticmethod
    def error(url: str) -> str:
        """Return the error of a run."""
        store = PostgresqlStore(url)
        with pytest.raises(StateError) as caught, store.lock("test", 0):
            store.commit(WEB, Commit([record()]))
        assert caught.value.exit_code == 74
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_nobody_listens(self) -> None:
        """The message has the address."""
        assert "Connection refused" in self.error(f"postgresql://postgres@127.0.0.1:{free_port()}/state")

    def test_a_wrong_password(self, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is that of PGPASSWORD, as for psql, and is not shown."""
        monkeypatch.setenv("PGPASSWORD", "open-wheat")
        message = self.error(f"postgresql://ra_guest@127.0.0.1:{port}/postgres")
        assert 'password authentication failed for user "ra_guest"' in message
        assert "wheat" not in message

    def test_no_password(self, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is asked for."""
        monkeypatch.setenv("PGPASSFILE", "/nonexistent")
        assert "no password supplied" in self.error(f"postgresql://ra_guest@127.0.0.1:{port}/postgres")

    def test_an_unknown_role_or_database(self, port: int) -> None:
        """The server names it."""
        assert "nothing-there" in self.error(f"postgresql://postgres@127.0.0.1:{port}/nothing-there")

    def test_a_role_without_rights(self, server: Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message names the role and the page about rights; before and after the tables exist."""
        database = url.rpartition("/")[2]
        monkeypatch.setenv("PGPASSWORD", "sesame")
        server.sql("DROP ROLE IF EXISTS ra_guest")
        server.sql("CREATE ROLE ra_guest LOGIN PASSWORD 'sesame'")
        guest = url.replace("postgres@", "ra_guest@")
        pattern = r"the role 'ra_guest' may not do that: permission denied for (database|schema) \w+; docs/teams.md"
        for _ in range(2):
            message = self.error(guest)
            assert re.search(pattern, message)
            store = PostgresqlStore(url)
            with store.lock("test", 0):
                store.claim(WEB, 0)
        server.sql("DROP OWNED BY ra_guest", database)

    def test_a_server_that_takes_no_writes(self, server: Server, url: str) -> None:
        """A standby, or one after a failover, is named as such, and can be read."""
        self._use(url)
        server.sql(f"ALTER DATABASE {url.rpartition('/')[2]} SET default_transaction_read_only = on")
        assert "the server takes no writes, as a standby: cannot execute UPDATE in a read-only" in self.error(url)
        assert PostgresqlStore(url).load(WEB).records

    def test_a_newer_format(self, server: Server, url: str) -> None:
        """Both versions are named; reading and writing are refused."""
        self._use(url)
        server.sql("UPDATE resource_api.format SET version = 7", url.rpartition("/")[2])
        assert "written by a newer resource-api: format 7, this one reads up to 1" in self.error(url)
        with pytest.raises(StateError, match="format 7"):
            PostgresqlStore(url).load(WEB)

    @pytest.mark.parametrize(
        "statement",
        [
            "CREATE TABLE resource_api.other (x integer)",
            "CREATE TABLE resource_api.format (x integer)",
            "CREATE TABLE resource_api.format (version text); INSERT INTO resource_api.format VALUES ('x')",
        ],
    )
    def test_a_schema_of_another_program(self, server: Server, url: str, statement: str) -> None:
        """It is neither read nor changed."""
        database = url.rpartition("/")[2]
        server.sql("CREATE SCHEMA resource_api", database)
        for part in statement.split("; "):
            server.sql(part, database)
        assert "the schema resource_api is not one of resource-api" in self.error(url)
        assert server.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'resource_api'", database) == [(1,)]

    def test_an_older_format(self, server: Server, url: str) -> None:
        """There has been none before the first."""
        self._use(url)
        server.sql("UPDATE resource_api.format SET version = 0", url.rpartition("/")[2])
        assert "there is no format 0" in self.error(url)

    def test_an_empty_schema_is_used(self, server: Server, url: str) -> None:
        """An administrator may have made it for a role that may not."""
        server.sql("CREATE SCHEMA resource_api", url.rpartition("/")[2])
        self._use(url)

    def test_a_database_that_is_not_utf8(self, server: Server) -> None:
        """The message says how to create one."""
        server.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        try:
            message = self.error(f"postgresql://postgres@127.0.0.1:{server.port}/latin")
            assert "the database has the encoding LATIN1; state needs one with ENCODING 'UTF8'" in message
        finally:
            server.sql("DROP DATABASE latin WITH (FORCE)")

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE resource_api.resource SET body = body || 'x'",
            "DELETE FROM resource_api.resource",
            "UPDATE resource_api.stack SET body = 'x'",
            "UPDATE resource_api.stack SET stack = 'other'",
        ],
    )
    def test_damage(self, server: Server, url: str, statement: str) -> None:
        """Altered, missing and moved rows are noticed, by 'state check' and by a run; the message names remedies."""
        self._use(url)
        server.sql(statement, url.rpartition("/")[2])
        store = PostgresqlStore(url)
        read = store.check if "other" not in statement else partial(store.load, WEB._replace(stack="other"))
        with pytest.raises(StateError, match=r"state is damaged: .*backup of the server") as caught:
            read()
        assert "state recover" not in str(caught.value)

    @staticmethod
    def _use(url: str) -> None:
        store = PostgresqlStore(url)
        with store.lock("test", 0):
            store.commit(WEB, Commit([record()]))
