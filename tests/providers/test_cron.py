"""Cron jobs in real crontabs, which are restored after each test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Change, CommandError, Context, Runtime
from resource_api.files import Lines
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, Subject
from resource_api.system.log import Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.namespaces import bind, private_mounts
from tests.providers.applied import reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api import Resource

TYPE = Registry.from_path().type("cron")
cron = bundled.execute("providers", "cron")
SPOOL = Path("/var/spool/cron/crontabs")
NAME = "ra-test-job"
MARKED = f"# resource-api: {NAME}\n"
EVERY = {"minute": "*", "hour": "*", "monthday": "*", "month": "*", "weekday": "*", "special": "absent"}
JOB: dict[str, Any] = {"ensure": "present", "name": NAME, "user": "nobody", "command": "/bin/true", **EVERY}
GONE = {"ensure": "absent", "name": NAME, "user": "nobody"}
ROOT = {"ensure": "present", "name": NAME, "user": "root", "command": "/usr/local/sbin/backup", **EVERY, "hour": "3"}
#: What a user of the machine writes to become root.
HOSTILE_TABLE = f"{MARKED}SHELL=/home/bob/evil.sh\nPATH=/home/bob\n@reboot /home/bob/evil.sh\n".encode()


def crontab(user: str, *arguments: str, content: bytes | None = None) -> bytes:
    """Run the program for a user and return its output."""
    return subprocess.run(["crontab", "-u", user, *arguments], input=content, check=True, capture_output=True).stdout


@pytest.fixture(autouse=True)
def _crontabs() -> Iterator[None]:
    """Restore the crontabs of nobody and root after the test."""
    entries = {path: path.read_bytes() for user in ("nobody", "root") if (path := SPOOL / user).exists()}
    for user in ("nobody", "root"):
        subprocess.run(["crontab", "-u", user, "-r"], check=False, capture_output=True)
    try:
        yield
    finally:
        for user in ("nobody", "root"):
            subprocess.run(["crontab", "-u", user, "-r"], check=False, capture_output=True)
            if (path := SPOOL / user) in entries:
                crontab(user, "-", content=b"")
                path.write_bytes(entries[path])


def read(*names: tuple[str, str]) -> dict[Any, Any]:
    """Return the jobs by name and user, or the reason of a failure."""
    provider, context = cron.Provider(), Context(TYPE, RunContext(Log("off")), reading=True)
    with context.activate(provider):
        entries = {TYPE.name_of(row): row for row in provider.get(context, names or None)}
    return entries | {name: outcome.reason for name, outcome in context.outcomes.items()}


def write(*expected: Mapping[str, Any]) -> None:
    """Apply changes to jobs and check that the result is as declared."""
    names = [TYPE.name_of(should) for should in expected]
    is_, provider = read(*names), cron.Provider()
    canonical = provider.canonicalize(None, [dict(should) for should in expected])
    context = Context(TYPE, RunContext(Log("off")), subjects={name: Subject(name[0]) for name in names})
    with context.activate(provider):
        provider.set(
            context, {name: Change(is_.get(name), should) for name, should in zip(names, canonical, strict=True)}
        )
    after = read(*names)
    for name, should in zip(names, canonical, strict=True):
        row = after.get(name, {**GONE, "user": name[1]})
        assert {key: row.get(key) for key in should} == should


def test_a_job_is_created_changed_and_deleted_without_a_trace() -> None:
    """All other lines keep their bytes: comments, spacing, and bytes that are not UTF-8."""
    people = b"# m h\tdom\n\n  MAILTO = caf\xe9\n5   4 * * sun\t/bin/false # \xff\n# resource-api: nothing follows\n"
    crontab("nobody", "-", content=people)
    write({**JOB, "minute": [30, 5], "weekday": "mon-fri", "environment": ["B=2", "A = 1"]})
    added = MARKED.encode() + b"A=1\nB=2\n5,30 * * * 1-5 /bin/true\n"
    assert crontab("nobody", "-l") == people + added
    write({**JOB, "special": "midnight", "command": "date +\\%F%in"})
    assert crontab("nobody", "-l") == people + MARKED.encode() + b"A=1\nB=2\n@daily date +\\%F%in\n"
    write(GONE)
    assert crontab("nobody", "-l") == people


def test_deleting_the_last_job_removes_the_crontab() -> None:
    """A user without a crontab has none again."""
    write(JOB)
    write(GONE)
    assert not (SPOOL / "nobody").exists()


def write_table(content: bytes) -> None:
    """Write the table of nobody in place; the kernel may refuse O_CREAT for it there (fs.protected_regular)."""
    descriptor = os.open(SPOOL / "nobody", os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(descriptor, "wb") as table:
        table.write(content)


def test_comments_at_the_top_survive_in_a_table_that_crontab_did_not_install() -> None:
    """Debian's ``crontab -l`` hides up to three of them as if it had written them."""
    crontab("nobody", "-", content=b"")
    write_table(b"# one\n# two\n# three\n# four\n@daily true\n")
    write(JOB)
    write(GONE)
    assert crontab("nobody", "-l") == b"# one\n# two\n# three\n# four\n@daily true\n"


def test_only_the_header_of_crontab_is_removed() -> None:
    """The same words further down belong to the user."""
    header = b"# DO NOT EDIT THIS FILE - edit the master and reinstall.\n# (x installed on y)\n# (Cron version z)\n"
    crontab("nobody", "-", content=b"# top\n" + header)
    write(JOB)
    write(GONE)
    assert crontab("nobody", "-l") == b"# top\n" + header


def test_a_table_without_a_last_newline_gets_one() -> None:
    """Cron ignores such a table, and crontab refuses it."""
    crontab("nobody", "-", content=b"")
    write_table(b"@daily true")
    write(JOB)
    assert crontab("nobody", "-l").endswith(f"@daily true\n{MARKED}* * * * * /bin/true\n".encode())


def manifest(**resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest of jobs by title."""
    return {"project": "ra-test", "resources": {f"Cron[{title}]": job for title, job in resources.items()}}


def test_another_user_of_the_same_title_is_another_job() -> None:
    """The former one stays and is reported, or goes first where the manifest permits a replacement."""
    runtime = Runtime(Registry.from_path(), log=Log("off"), state="memory:")
    job = {"command": "/bin/true", "user": "nobody"}
    runtime.apply(manifest(**{NAME: job}))
    assert runtime.apply(manifest(**{NAME: {**job, "user": "root"}})).summary.created == 1
    assert read().keys() == {(NAME, "nobody"), (NAME, "root")}
    moved = {**job, "user": "root", "hour": 1, "lifecycle": {"replace": "delete_first"}}
    write({**GONE, "user": "root"}, GONE)
    runtime = Runtime(Registry.from_path(), log=Log("off"), state="memory:")
    runtime.apply(manifest(**{NAME: job}))
    assert runtime.apply(manifest(**{NAME: moved})).summary.replaced == 1
    assert read().keys() == {(NAME, "root")}


def test_nothing_of_another_users_crontab_is_carried_over() -> None:
    """A job of root has the environment and times that are declared, whatever bob has marked with its name."""
    crontab("nobody", "-", content=HOSTILE_TABLE)
    job = {NAME: {"command": "/usr/local/sbin/backup", "hour": 3}}
    assert Runtime(Registry.from_path(), log=Log("off")).apply(manifest(**job)).exit_code == 0
    assert crontab("root", "-l") == f"{MARKED}* 3 * * * /usr/local/sbin/backup\n".encode()
    assert crontab("nobody", "-l") == HOSTILE_TABLE


def test_another_users_mark_blocks_neither_a_change_nor_a_deletion() -> None:
    """Root has the job, and bob marks one of his with its name."""
    runtime = Runtime(Registry.from_path(), log=Log("off"))
    write(ROOT)
    crontab("nobody", "-", content=HOSTILE_TABLE * 2)
    assert runtime.apply(manifest(**{NAME: {"command": "/bin/true", "hour": 3}})).summary.updated == 1
    assert crontab("root", "-l") == f"{MARKED}* 3 * * * /bin/true\n".encode()
    assert runtime.apply(manifest(**{NAME: {"ensure": "absent"}})).summary.deleted == 1
    assert not (SPOOL / "root").exists()
    assert crontab("nobody", "-l") == HOSTILE_TABLE * 2


def test_the_same_name_of_two_users_is_two_jobs() -> None:
    """Each is declared, changed and deleted by itself, and both are listed."""
    write(ROOT, JOB)
    assert {name[1] for name in read()} == {"nobody", "root"}
    write(GONE)
    assert read((NAME, "root"))[NAME, "root"]["hour"] == "3"


@pytest.mark.parametrize("line", [b"@reboot a\x07b\n", b"9" * 5000 + b" * * * * a\n", b"X=\x01\n@reboot a\n"])
def test_a_job_that_the_type_cannot_describe_exists(line: bytes) -> None:
    """It is deleted like any other, and fails no job of another user."""
    crontab("nobody", "-", content=b"")
    write_table(MARKED.encode() + line)
    write(ROOT)
    assert read((NAME, "nobody"), (NAME, "root")).keys() == read().keys() == {(NAME, "nobody"), (NAME, "root")}
    write(GONE)
    assert not (SPOOL / "nobody").exists()


@pytest.mark.parametrize("obstacle", ["directory", "link", "oversized"])
def test_a_crontab_that_cannot_be_read_fails_its_jobs_alone(obstacle: str) -> None:
    """A job in it that is declared absent is not taken for absent."""
    path = SPOOL / "nobody"
    if obstacle == "directory":
        path.mkdir()
    elif obstacle == "link":
        path.symlink_to("/etc/crontab")
    else:
        crontab("nobody", "-", content=b"")
        os.truncate(path, 17 << 20)
    try:
        report = Runtime(Registry.from_path(), log=Log("off")).apply(
            manifest(a={**GONE, "name": NAME}, b={"command": "/bin/true"})
        )
        assert [step.status for step in report.steps] == ["failed", "success"]
        assert "the crontab of 'nobody' cannot be read" in report.steps[0].error
    finally:
        if obstacle == "directory":
            path.rmdir()


def test_one_table_is_installed_for_all_jobs_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many jobs need as many calls as one."""
    installed: list[str] = []
    install = cron.Provider._install

    def watched(self: Any, user: str, content: bytes) -> None:
        installed.append(user)
        install(self, user, content)

    monkeypatch.setattr(cron.Provider, "_install", watched)
    write(*({**JOB, "name": f"{NAME} {number}", "minute": number} for number in range(50)))
    assert installed == ["nobody"]


def test_an_ambiguous_name_is_an_error_with_the_user() -> None:
    """The user must decide which job is meant."""
    crontab("nobody", "-", content=f"{MARKED}@daily true\n{MARKED}@daily false\n".encode())
    assert "marks 2 jobs in the crontab of 'nobody'" in read((NAME, "nobody"))[NAME, "nobody"]
    assert read() == {}


def test_a_table_that_crontab_refuses_fails_with_its_message() -> None:
    """The present crontab stays."""
    crontab("nobody", "-", content=b"@daily true\n")
    with pytest.raises(CommandError, match="the crontab of 'nobody' would not be valid: bad minute"):
        write({**JOB, "minute": "7-99"})
    assert crontab("nobody", "-l") == b"@daily true\n"


def test_a_plan_names_the_later_jobs_that_a_jobs_variables_reach() -> None:
    """Up to the one that sets them anew; a job at the end of the table reaches none."""
    crontab("root", "-", content=b"# why\n@daily first\n")
    declared = {"command": "x", "environment": ["PATH=/a", "B=b"]}
    assert warned({"Cron[odd]": declared}) == []
    mark = MARKED.strip()
    table = f"{mark}\n@daily a\n{mark}2\nPATH=/b\n@daily b\n@daily c\n{mark}3\nB=c\n@daily d\n"
    crontab("root", "-", content=table.encode())
    result = warned({f"Cron[{NAME}]": declared})
    assert result == [f"its environment also applies to later jobs in the crontab of 'root': '{NAME}2', line 8"]
    assert warned({f"Cron[{NAME}]": {**declared, "environment": ["PATH=/a"]}}) == []
    assert warned({f"Cron[{NAME}]": {**declared, "ensure": "absent"}}) == []


def test_an_unknown_user_fails() -> None:
    """A crontab of an unknown user would never run."""
    with pytest.raises(Exception, match="ra-test-nobody"):
        write({**JOB, "user": "ra-test-nobody"})


def test_a_second_run_changes_nothing() -> None:
    """What was declared is read back."""
    runtime = Runtime(Registry.from_path(), log=Log("off"))
    manifest = {
        "project": "ra-test",
        "resources": {
            f"Cron[{NAME}]": {"user": "nobody", "command": " x % y ", "minute": [30, "5"], "weekday": "Tuesday"},
            f"Cron[{NAME} 2]": {"command": "x", "special": "annually", "environment": ["B=1", "A = 2", "C="]},
        },
    }
    assert runtime.apply(manifest).summary.created == 2
    assert {step.action for step in runtime.plan(manifest).steps} == {"same"}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("minute", 5, "5"),
        ("minute", "05", "5"),
        ("minute", ["15", 1, "15"], "1,15"),
        ("minute", "*/10", "*/10"),
        ("hour", ["8-17/2", 20], "8-17/2,20"),
        ("month", "Feb", "2"),
        ("month", ["december", "jan"], "1,12"),
        ("weekday", "monday", "1"),
        ("weekday", 7, "0"),
        ("weekday", "fri-sun", "5-7"),
        ("weekday", "sun-tue", "0-2"),
        ("month", "monday", "monday"),
        ("hour", "mon", "mon"),
    ],
)
def test_a_field_has_one_canonical_form(field: str, value: Any, expected: str) -> None:
    """Numbers are sorted where the order means nothing; an invalid field is left to validation."""
    assert cron.canonical(field, value) == expected
    assert cron.canonical(field, expected) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("minute", "60"), ("hour", "24"), ("monthday", "0"), ("month", "13"), ("weekday", "8"), ("month", "monday")],
        *[("hour", "9-5"), ("minute", "5/10"), ("minute", "*/0"), ("minute", ","), ("minute", "1-"), ("minute", "-1")],
    ],
)
def test_invalid_times_are_refused(field: str, value: str) -> None:
    """Each problem names its field."""
    (problem,) = cron.Provider().validate(None, {**EVERY, field: cron.canonical(field, value)})
    assert problem.attribute == field


def test_special_and_times_exclude_each_other() -> None:
    """One of them would be ignored."""
    (problem,) = cron.Provider().validate(None, {**EVERY, "special": "daily", "hour": "3"})
    assert problem.attribute == "hour"


HOSTILE = ["a\nb", "a\r", "\x00", "a\x1b[2J", "\n* * * * * root evil", "x\n"]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("attribute", ["name", "user", "command", "minute", "environment"])
def test_no_value_can_contain_a_line_break(attribute: str, value: str) -> None:
    """The data types refuse line breaks and control characters."""
    accepts = TYPE.accepts[attribute]
    assert not accepts([value] if attribute == "environment" else value)
    assert not accepts([f"A={value}"])


@pytest.mark.parametrize("user", ["-l", "a:b", "a/b", "", "a b"])
def test_a_user_cannot_be_an_option_or_a_path(user: str) -> None:
    """The name is an argument of a program."""
    assert not TYPE.accepts["user"](user)


WORD = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, blacklist_characters="\x7f"), min_size=1)
TIMES = st.lists(st.integers(1, 7), min_size=1, max_size=3)
TABLE = st.lists(
    st.sampled_from(["* * * * * a", "# resource-api: other", "@daily b", "X=1", "", "# c", " # resource-api: x"])
).map(lambda lines: "".join(f"{line}\n" for line in lines).encode())
JOBS = st.fixed_dictionaries(
    {"name": WORD, "command": WORD, **dict.fromkeys(("minute", "hour", "monthday", "month", "weekday"), TIMES)},
    optional={"environment": st.lists(WORD.map("A={}".format)), "special": st.sampled_from(["daily", "absent"])},
)


@given(TABLE, JOBS)
def test_an_added_job_is_read_back_and_removed_without_a_trace(content: bytes, job: dict[str, Any]) -> None:
    """It holds for any table, and a second edit changes nothing."""
    (job,) = cron.Provider().canonicalize(None, [job])
    if job.get("special", "absent") != "absent":
        job.update({field: "*" for field in EVERY if field != "special"})
    name = job["name"] = f"{job['name']} ra-test"
    table = Lines(content)
    cron.edit(table, {name: job})
    added = table.content
    (row,) = (block.job for block in cron.blocks(table) if block.job["name"] == name)
    assert {key: row[key] for key in job} == job
    cron.edit(table, {name: job})
    assert table.content == added
    cron.edit(table, {name: None})
    assert table.content == content


def test_a_crontab_that_is_a_mount_point_is_reported_by_the_plan(tmp_path: Path) -> None:
    """Because crontab(1) replaces files."""
    crontab("nobody", "-", content=b"# none\n")
    (tmp_path / "table").write_bytes((SPOOL / "nobody").read_bytes())
    job = {f"Cron[{NAME}]": {"user": "nobody", "command": "/bin/true"}}
    with private_mounts():
        bind(tmp_path / "table", str(SPOOL / "nobody"))
        message = f"'{SPOOL}/nobody' is a mount point, and crontab(1) cannot replace it"
        assert warned(job) == [message]
        assert reason(run(job)[0])
    assert warned(job) == []


class TestCron(ProviderCompliance):
    """A job of the user nobody."""

    type_name = "cron"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": NAME, "user": "nobody", "command": "/bin/true", "minute": [30, "5"], "weekday": "Mon"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "command": "/bin/false"}

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: {path: path.read_bytes() for path in SPOOL.iterdir()}

    @pytest.fixture
    def neighbours(self, present: Resource) -> list[Neighbour]:
        """Return the crontab of a user who marks jobs with the names of others."""
        mine = {**present, "user": "daemon"}
        return [Neighbour(str(SPOOL / "daemon"), HOSTILE_TABLE * 2, "daemon", [mine, {**mine, "ensure": "absent"}])]
