"""Commands whose state is on a PostgreSQL server: all work with it, and no failure loses or repeats anything."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.postgresql_server import Server, Wire, pooler
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.scenarios.conftest import Bench

ROOT: Final = Path(__file__).resolve().parents[2]
SITE: Final = """
project: web
resources:
  Widget[a]: {size: 1}
  Widget[b]: {size: 2, require: "Widget[a]"}
outputs: {size: 1}
"""
#: The second resource waits until the file `gate` exists, and notes each of its runs.
GATED: Final = """
project: web
resources:
  Widget[a]: {size: 1}
  Exec[it]: {command: "echo run >> runs; until test -e gate; do sleep 0.05; done", shell: true, cwd: HOME}
  Widget[b]: {size: 2}
"""
#: The command with leases of a second, and with its name in the process list.
QUICK: Final = """
from resource_api.state.postgresql import lease
lease.SECONDS = 1.0
from resource_api.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a running server."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def url(server: Server, bench: Bench) -> Iterator[str]:
    """Yield the URL of an empty database, which is the state of the bench."""
    with server.database() as url:
        bench.environment["RESOURCE_API_STATE"] = url
        yield url


def ok(bench: Bench, *arguments: str | Path, **environment: str) -> str:
    """Return the output of a command that succeeds."""
    outcome = bench.run(*arguments, **environment)
    assert outcome.code == 0, (arguments, outcome)
    return outcome.out


def site(bench: Bench, text: str = SITE) -> Path:
    """Write a manifest."""
    return bench.write("site.yaml", text.replace("HOME", str(bench.home)))


def start(bench: Bench, *arguments: str | Path) -> subprocess.Popen[str]:
    """Start a command whose leases are short."""
    words = [sys.executable, "-c", QUICK, *map(str, arguments)]
    environment = {**bench.environment, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        words, cwd=bench.home, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def begun(bench: Bench) -> None:
    """Wait until the resource of the gate runs."""
    wait_until((bench.home / "runs").exists)


def changed(bench: Bench) -> list[str]:
    """Return the name of each widget as often as it was changed, in order."""
    return [name for call in bench.calls("widget", "set") for name in call]


def rows(server: Server, url: str) -> str:
    """Return everything that a database holds, as text."""
    tables = ("stack", "resource", "owed", "intent", "run")
    database = url.rpartition("/")[2]
    return "".join(repr(server.sql(f"TABLE resource_api.{table}", database)) for table in tables)


class TestCommands:
    """Each command does what it does with a database on this machine."""

    @pytest.mark.usefixtures("url")
    def test_a_stack_from_its_first_run_to_its_end(self, bench: Bench) -> None:
        """Plan, apply, list, edit, move, export, import, refresh, history and destroy."""
        manifest = site(bench)
        assert bench.run("plan", manifest, "--detailed-exitcode").code in {2, 64}
        ok(bench, "apply", manifest)
        assert "2 unchanged" in ok(bench, "apply", manifest)
        assert ok(bench, "state", "list").split() == ["Widget[a]", "Widget[b]"]
        assert "size: 1" in ok(bench, "state", "show", "Widget[a]")
        assert ok(bench, "output") == "size: 1\n"
        assert [run["command"] for run in json.loads(ok(bench, "history", "--json"))] == ["apply", "apply"]
        assert "Widget[a]" in ok(bench, "report", "last")
        exported = bench.write("web.json", ok(bench, "state", "export"))
        ok(bench, "state", "taint", "Widget[b]")
        ok(bench, "state", "untaint", "Widget[b]")
        ok(bench, "state", "mv", "Widget[b]", "Widget[c]")
        ok(bench, "state", "rm", "Widget[c]")
        ok(bench, "import", manifest, "Widget[b]")
        ok(bench, "state", "import", exported, "--force")
        assert ok(bench, "state", "list").split() == ["Widget[a]", "Widget[b]"]
        bench.put("widget", a={"name": "a", "ensure": "present", "size": 9})
        assert "1 refreshed" in ok(bench, "refresh", manifest)
        ok(bench, "plan", manifest, "-o", "plan.json")
        ok(bench, "apply", "plan.json")
        assert bench.things("widget")["a"]["size"] == 1
        ok(bench, "stack", "rename", "default", "prod")
        ok(bench, "state", "mv", "--project", "site")
        assert re.findall(r"site +prod +\d+ +2", ok(bench, "stack", "list"))
        assert ": every row is intact" in ok(bench, "state", "check")
        assert "nothing to recover" in ok(bench, "state", "recover")
        ok(bench, "destroy", manifest, "--yes", "--project", "site", "--stack", "prod")
        assert bench.things("widget") == {}
        ok(bench, "stack", "rm", "prod", "--force")
        assert ok(bench, "stack", "list", "--json") == "[]\n"

    @pytest.mark.usefixtures("url")
    def test_a_rehearsal_leaves_it_as_it_is(self, bench: Bench) -> None:
        """The state is read and nothing is written."""
        manifest = bench.write("motd.yaml", f"project: web\nresources:\n  File[{bench.home}/motd]: {{content: hi}}\n")
        ok(bench, "apply", manifest)
        before = ok(bench, "state", "export")
        outcome = bench.run("rehearse", manifest)
        assert (outcome.code, "nothing changes again" in outcome.out) == (0, True)
        assert ok(bench, "state", "export") == before

    def test_secrets_are_ciphertext_with_a_key(self, bench: Bench, server: Server, url: str) -> None:
        """The administrator of the database can read none of them; without the key the stack cannot be used."""
        ok(bench, "new", "key", "state.key")
        word = bench.write("word", "open-sesame")
        key = f"file:{bench.home}/state.key"
        manifest = site(
            bench, "project: web\ninputs: {word: {type: 'Sensitive[String]'}}\noutputs: {w: '${inputs.word}'}"
        )
        ok(bench, "apply", manifest, "-i", f"word=@{word}", "--key", key)
        assert "open-sesame" in ok(bench, "output", "w", "--reveal", "--key", key)
        ok(bench, "state", "rekey", "--key", key)
        assert bench.run("output", "w").code == 64
        assert "open-sesame" not in rows(server, url)

    @pytest.mark.usefixtures("url")
    def test_hosts_keep_their_own_state(self, bench: Bench) -> None:
        """``--on`` with a server's URL is refused, and says how to go on."""
        outcome = bench.run("apply", site(bench), "--on", "x")
        assert outcome.code == 64
        assert "with --on each host keeps its own state" in outcome.err

    def test_behind_a_pooler(self, bench: Bench, server: Server, url: str) -> None:
        """Pgbouncer in transaction mode changes nothing."""
        with pooler(server) as port:
            bench.environment["RESOURCE_API_STATE"] = url.replace(f":{server.port}/", f":{port}/")
            ok(bench, "apply", site(bench))
            assert "2 unchanged" in ok(bench, "apply", site(bench))
            ok(bench, "destroy", site(bench), "--yes")
        assert changed(bench) == ["a", "b", "b", "a"]

    def test_without_the_library(self, bench: Bench) -> None:
        """The message has the command that installs it (64)."""
        code = "import sys; sys.modules['psycopg'] = None; from resource_api.__main__ import main; main()"
        words = [sys.executable, "-c", code, "state", "list", "--state", "postgresql://db/state"]
        environment = {**bench.environment, "PYTHONPATH": str(ROOT)}
        process = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert process.returncode == 64
        assert "pip install 'resource-api[postgres]'" in process.stderr


class TestRights:
    """Who may do what is decided by the server."""

    def statements(self) -> list[str]:
        """Return the statements of the page about teams."""
        text = (ROOT / "docs/teams.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
        return [part.strip() for block in blocks for part in re.sub(r"--.*", "", block).split(";") if part.strip()]

    def test_a_ci_that_may_read_plans_and_does_not_apply(self, bench: Bench, server: Server, url: str) -> None:
        """The roles of the page: one reads, one writes; a refused apply (74) names the role, and changes nothing."""
        database = url.rpartition("/")[2]
        manifest = site(bench)
        ok(bench, "apply", manifest)
        try:
            for statement in self.statements():
                if not statement.startswith("CREATE DATABASE"):
                    server.sql(statement, database)
            for role in ("alice", "ci"):
                server.sql(f"ALTER ROLE {role} PASSWORD 'wheat-{role}'")
            passwords = bench.write("pgpass", "*:*:*:alice:wheat-alice\n*:*:*:ci:wheat-ci\n")
            passwords.chmod(0o600)
            alice, ci = ({"RESOURCE_API_STATE": url.replace("postgres@", f"{role}@")} for role in ("alice", "ci"))
            for environment in (alice, ci):
                environment["PGPASSFILE"] = str(passwords)
            changed = site(bench, SITE.replace("size: 1", "size: 7"))
            assert "1 to update" in ok(bench, "plan", changed, **ci)
            for words in (("state", "list"), ("history",), ("output",), ("report",), ("state", "check")):
                ok(bench, *words, **ci)
            for words in (
                ("apply", changed),
                ("refresh", changed),
                ("state", "rm", "Widget[a]"),
                ("stack", "rm", "default"),
            ):
                outcome = bench.run(*words, **ci)
                assert outcome.code == 74, outcome
                assert "the role 'ci' may not do that: permission denied for" in outcome.err
            assert bench.things("widget")["a"]["size"] == 1
            ok(bench, "apply", changed, **alice)
            assert bench.things("widget")["a"]["size"] == 7
        finally:
            for role in ("alice", "ci", "state_write", "state_read"):
                server.sql(f"DROP OWNED BY {role}", database)
                server.sql(f"DROP ROLE {role}")

    def test_no_password_is_shown_or_stored(self, bench: Bench, server: Server, url: str) -> None:
        """Neither in the whole log, an error, a report, nor in the database; one in a URL is refused before (64)."""
        server.sql("CREATE ROLE ra_owner LOGIN SUPERUSER PASSWORD 'open-wheat'")
        try:
            own = {"RESOURCE_API_STATE": url.replace("postgres@", "ra_owner@")}
            outcomes = [
                bench.run("apply", site(bench), "-d", PGPASSWORD="open-wheat", **own),
                bench.run("report", "--json", PGPASSWORD="open-wheat", **own),
                bench.run("apply", site(bench), "-d", PGPASSWORD="open-wheat-wrong", **own),
                bench.run("state", "list", "--state", url.replace("postgres@", "ra_owner:open-wheat@")),
            ]
            assert [outcome.code for outcome in outcomes] == [0, 0, 74, 64]
            assert "wheat" not in "".join(outcome.out + outcome.err for outcome in outcomes)
            assert "wheat" not in rows(server, url)
        finally:
            server.sql("REASSIGN OWNED BY ra_owner TO postgres", url.rpartition("/")[2])
            server.sql("DROP ROLE ra_owner")


class TestFailures:
    """Nothing is lost, and nothing is done twice."""

    @pytest.mark.usefixtures("url")
    def test_two_controllers_at_once(self, bench: Bench) -> None:
        """The second one names the first, or waits for it and finds nothing to do."""
        manifest = site(bench, GATED)
        first = start(bench, "apply", manifest)
        begun(bench)
        refused = bench.run("apply", manifest)
        assert refused.code == 75
        assert re.search(r"pid \d+ \(\w+ on \S+\) has been running 'apply' since \d{4}-", refused.err)
        assert "Exec[it]: its run is under way: pid" in bench.run("plan", manifest).err
        ok(bench, "apply", bench.write("other.yaml", SITE), "--stack", "other")
        second = start(bench, "apply", manifest, "--lock-timeout", "30")
        bench.write("gate", "")
        assert (first.wait(30), second.wait(30)) == (0, 0), (first.communicate(), second.communicate())
        _close(first, second)
        assert changed(bench) == ["a", "b"]

    @pytest.mark.usefixtures("url")
    def test_a_killed_run_is_completed_by_the_next(self, bench: Bench) -> None:
        """At once on the same machine; what was in doubt is read again."""
        manifest = site(bench, GATED)
        first = start(bench, "apply", manifest)
        begun(bench)
        first.kill()
        _close(first)
        bench.write("gate", "")
        outcome = bench.run("apply", manifest)
        assert outcome.code == 0, outcome
        assert "Exec[it]: in doubt" in outcome.err
        assert changed(bench) == ["a", "b"]
        assert json.loads(ok(bench, "plan", manifest, "--json"))["summary"]["created"] == 0

    @pytest.mark.usefixtures("url")
    def test_a_frozen_run_is_overtaken_and_writes_nothing_more(self, bench: Bench) -> None:
        """A laptop that was closed: when it wakes, its run ends (75) and names who has the lock."""
        manifest = site(bench, GATED)
        first = start(bench, "apply", manifest)
        begun(bench)
        os.kill(first.pid, signal.SIGSTOP)
        bench.write("gate", "")
        outcome = bench.run("apply", manifest, "--lock-timeout", "20")
        assert outcome.code == 0, outcome
        os.kill(first.pid, signal.SIGCONT)
        _, err = first.communicate(timeout=30)
        assert first.returncode == 75, err
        assert "lost the lock to" in err
        assert changed(bench) == ["a", "b"]
        assert ok(bench, "state", "list").split() == ["Widget[a]", "Exec[it]", "Widget[b]"]
        assert ": every row is intact" in ok(bench, "state", "check")

    @pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
    def test_a_cut_at_any_message_changes_nothing(
        self, bench: Bench, server: Server, url: str, *, answered: bool
    ) -> None:
        """The run reconnects and ends with 0, or, without a first connection, with 74; nothing is done twice."""
        wire, manifest = Wire(server.port), site(bench)
        through = {"RESOURCE_API_STATE": url.replace(f":{server.port}/", f":{wire.port}/")}
        for number in count(1):
            for file in bench.things_of.iterdir():
                file.unlink()
            server.sql("DROP SCHEMA IF EXISTS resource_api CASCADE", url.rpartition("/")[2])
            wire.cut(number, answered=answered)
            outcome = bench.run("apply", manifest, **through)
            is_over = wire.count < number
            assert outcome.code == 0 or (outcome.code == 74 and number <= 3), (number, outcome)
            if outcome.code:
                assert changed(bench) == []
                ok(bench, "apply", manifest)
            assert changed(bench) == ["a", "b"]
            assert json.loads(ok(bench, "plan", manifest, "--json"))["summary"]["unchanged"] == 2
            if is_over:
                break
        wire.close()
        assert number > 10

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
    def test_a_restarted_server_does_not_end_a_run(self, bench: Bench, how: signal.Signals) -> None:
        """The run goes on with its lock."""
        server = Server("fsync=on")
        try:
            with server.database() as url:
                bench.environment["RESOURCE_API_STATE"] = url
                manifest = site(bench, GATED)
                run = start(bench, "apply", manifest)
                begun(bench)
                server.stop(how)
                server.start()
                bench.write("gate", "")
                _, err = run.communicate(timeout=30)
                assert run.returncode == 0, err
                assert ok(bench, "state", "list").split() == ["Widget[a]", "Exec[it]", "Widget[b]"]
        finally:
            server.remove()

    def test_a_server_that_is_gone_ends_a_run(self, bench: Bench) -> None:
        """With 74; the next run completes it, and repeats nothing."""
        server = Server("fsync=on")
        try:
            with server.database() as url:
                bench.environment["RESOURCE_API_STATE"] = url
                manifest = site(bench, GATED)
                run = start(bench, "apply", manifest)
                begun(bench)
                server.stop()
                bench.write("gate", "")
                _, err = run.communicate(timeout=30)
                assert run.returncode == 74, err
                assert "Connection refused" in err
                server.start()
                assert bench.run("apply", manifest, "--lock-timeout", "20").code == 0
                assert changed(bench) == ["a", "b"]
                assert json.loads(ok(bench, "plan", manifest, "--json"))["summary"]["created"] == 0
        finally:
            server.remove()


def _close(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.communicate()


#: Copies stacks and kills itself when it writes one of them: before, or after.
KILLED: Final = """
import os, signal, sys
from resource_api.state.open_store import open_store
from resource_api.state.postgresql.store import PostgresqlStore
from resource_api.runtime.recorded_stack import copy_stacks
number, moment = int(sys.argv[3]), sys.argv[4]
class Killed(PostgresqlStore):
    count = 0
    def overwrite(self, name, state):
        self.count += 1
        if self.count == number and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().overwrite(name, state)
        if self.count == number:
            os.kill(os.getpid(), signal.SIGKILL)
source = open_store(sys.argv[1])
copy_stacks(source, Killed(sys.argv[2]), source.stacks(), "target", 0)
"""


class TestCopy:
    """``state copy`` moves stacks between stores."""

    @pytest.fixture
    def old(self, bench: Bench) -> str:
        """Return the URL of a database on this machine with three stacks."""
        url = f"sqlite:{bench.home}/old/state.db"
        for stack in ("default", "prod", "test"):
            ok(bench, "apply", site(bench), "--state", url, "--stack", stack)
        return url

    @staticmethod
    def documents(bench: Bench, url: str, stacks: Sequence[str] = ("default", "prod", "test")) -> list[Any]:
        """Return the exported stacks of a store."""
        return [json.loads(ok(bench, "state", "export", "--state", url, "--stack", stack)) for stack in stacks]

    def test_all_stacks_are_copied_whole_and_back(self, bench: Bench, url: str, old: str) -> None:
        """Lineage, serial, resources, outputs and salt are equal; a second copy finds them there."""
        assert ok(bench, "state", "copy", old, url).splitlines() == [
            f"project web, stack {stack}: copied, 2 resources, serial {serial}"
            for stack, serial in (("default", 2), ("prod", 1), ("test", 1))
        ]
        assert self.documents(bench, url) == self.documents(bench, old)
        again = json.loads(ok(bench, "state", "copy", old, url, "--json"))
        assert [stack["status"] for stack in again] == ["unchanged"] * 3
        assert "2 unchanged" in ok(bench, "apply", site(bench), "--state", url)
        back = f"sqlite:{bench.home}/back/state.db"
        ok(bench, "state", "copy", url, back, "--stack", "prod")
        assert self.documents(bench, back, ["prod"]) == self.documents(bench, old, ["prod"])
        assert len(json.loads(ok(bench, "stack", "list", "--json", "--state", back))) == 1

    def test_the_history_is_copied_with_its_reports(self, bench: Bench, url: str, old: str) -> None:
        """Each finished run once, in its order, however often and in whatever direction; reports can be shown there."""

        def runs(store: str, stack: str) -> list[tuple[str, str, bool]]:
            listed = json.loads(ok(bench, "history", "--json", "--state", store, "--stack", stack))
            return [(run["run"], run["command"], run["kept"]) for run in listed if run["command"] != "state copy"]

        before = {stack: runs(old, stack) for stack in ("default", "prod", "test")}
        assert [kept for _, _, kept in before["prod"]] == [True]
        ok(bench, "state", "copy", old, url, "--stack", "test")
        for source, target in ((old, url), (old, url), (url, old)):
            ok(bench, "state", "copy", source, target)
            assert {stack: runs(target, stack) for stack in before} == before
        shown = ("history", "show", "last", "--stack", "test", "--json", "--state")
        assert json.loads(ok(bench, *shown, url)) == json.loads(ok(bench, *shown, old))

    def test_a_newer_or_another_state_stays(self, bench: Bench, url: str, old: str) -> None:
        """It is refused (65), and nothing is copied; a newer one is copied over its older self."""
        ok(bench, "state", "copy", old, url, "--stack", "prod")
        ok(bench, "state", "rm", "Widget[a]", "--stack", "prod")
        outcome = bench.run("state", "copy", old, url)
        assert (outcome.code, "older than what is recorded" in outcome.err) == (65, True)
        assert json.loads(ok(bench, "stack", "list", "--json"))[0]["stack"] == "prod"
        assert len(json.loads(ok(bench, "stack", "list", "--json"))) == 1
        ok(bench, "state", "copy", url, old)
        ok(bench, "apply", site(bench), "--stack", "default")
        outcome = bench.run("state", "copy", old, url)
        assert (outcome.code, "of another lineage" in outcome.err) == (65, True)

    @pytest.mark.parametrize("moment", ["before", "after"])
    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_a_killed_copy_is_completed_by_the_next(
        self, bench: Bench, url: str, old: str, number: int, moment: str
    ) -> None:
        """Each stack is there whole or not at all, and the source is as it was."""
        before = self.documents(bench, old)
        words = [sys.executable, "-c", KILLED, old, url, str(number), moment]
        process = subprocess.run(words, env={**bench.environment, "PYTHONPATH": str(ROOT)}, check=False)
        assert process.returncode == -signal.SIGKILL
        assert len(json.loads(ok(bench, "stack", "list", "--json"))) == number - (moment == "before")
        ok(bench, "state", "copy", old, url)
        assert self.documents(bench, url) == before == self.documents(bench, old)

    def test_a_copy_needs_two_stores_that_keep_state(self, bench: Bench, old: str) -> None:
        """Wrong usage is 64: the same store twice, one in memory, and one of which nothing is recorded."""
        nothing = f"sqlite:{bench.home}/nothing/state.db"
        respelled = old.replace("/old/", "/./old/")
        for source, target in ((old, old), (old, respelled), (old, "memory:"), ("memory:", old), (nothing, old)):
            assert bench.run("state", "copy", source, target).code == 64
        assert bench.run("state", "copy", old, nothing, "--project", "other").code == 64

    def test_secrets_are_encrypted_again(self, bench: Bench, url: str) -> None:
        """With the key of both stores they can be revealed there; without it the copy is refused (64)."""
        ok(bench, "new", "key", "state.key")
        word = bench.write("word", "open-sesame")
        key, old = f"file:{bench.home}/state.key", f"sqlite:{bench.home}/old/state.db"
        manifest = site(
            bench, "project: web\ninputs: {word: {type: 'Sensitive[String]'}}\noutputs: {w: '${inputs.word}'}"
        )
        ok(bench, "apply", manifest, "-i", f"word=@{word}", "--key", key, "--state", old)
        assert bench.run("state", "copy", old, url).code == 64
        ok(bench, "state", "copy", old, url, "--key", key)
        assert "open-sesame" in ok(bench, "output", "w", "--reveal", "--key", key)
