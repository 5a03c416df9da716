"""Cron jobs in real crontabs, which are left as they were found."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Change, CommandError, Context, Runtime
from resource_api.contract.registry import Registry
from resource_api.hands import loader
from resource_api.hands.context import Run, Subject
from resource_api.hands.lines import Lines
from resource_api.hands.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TYPE = Registry.from_path().type("cron")
cron = loader.execute(loader.BUNDLED / "providers" / "cron.py", "ra_test_cron")
SPOOL = Path("/var/spool/cron/crontabs")
NAME = "ra-test-job"
MARKED = f"# resource-api: {NAME}\n"
EVERY = {"minute": "*", "hour": "*", "monthday": "*", "month": "*", "weekday": "*", "special": "absent"}
JOB: dict[str, Any] = {"ensure": "present", "name": NAME, "user": "nobody", "command": "/bin/true", **EVERY}
GONE = {"ensure": "absent", "name": NAME}


def crontab(user: str, *arguments: str, content: bytes | None = None) -> bytes:
    """Run the program for a user, and give what it says."""
    return subprocess.run(["crontab", "-u", user, *arguments], input=content, check=True, capture_output=True).stdout


@pytest.fixture(autouse=True)
def _crontabs() -> Iterator[None]:
    """Keep the crontabs of nobody and root as they are, whatever the test does."""
    found = {path: path.read_bytes() for user in ("nobody", "root") if (path := SPOOL / user).exists()}
    for user in ("nobody", "root"):
        subprocess.run(["crontab", "-u", user, "-r"], check=False, capture_output=True)
    try:
        yield
    finally:
        for user in ("nobody", "root"):
            subprocess.run(["crontab", "-u", user, "-r"], check=False, capture_output=True)
            if (path := SPOOL / user) in found:
                crontab(user, "-", content=b"")
                path.write_bytes(found[path])


def read(*names: str) -> dict[str, Any]:
    """Give the jobs by name, failed ones as the reason."""
    provider, context = cron.Provider(), Context(TYPE, Run(Log("off")), reading=True)
    with context.lend(provider):
        found = {row["name"]: row for row in provider.get(context, names or None)}
    return found | {name: outcome.reason for name, outcome in context.outcomes.items()}


def write(*wanted: Mapping[str, Any]) -> None:
    """Bring jobs from what they are to what they should be, and see that they are so."""
    names = [should["name"] for should in wanted]
    is_, provider = read(*names), cron.Provider()
    canonical = provider.canonicalize(None, [dict(should) for should in wanted])
    context = Context(TYPE, Run(Log("off")), subjects={name: Subject(name) for name in names})
    with context.lend(provider):
        provider.set(context, {should["name"]: Change(is_.get(should["name"]), should) for should in canonical})
    after = read(*names)
    for should in canonical:
        row = after.get(should["name"], {"ensure": "absent", "name": should["name"]})
        assert {key: row.get(key) for key in should} == should


def test_a_job_comes_changes_and_goes_and_the_crontab_is_as_before() -> None:
    """The lines of people keep their bytes: comments, spacing, and what is no UTF-8."""
    people = b"# m h\tdom\n\n  MAILTO = caf\xe9\n5   4 * * sun\t/bin/false # \xff\n# resource-api: nothing follows\n"
    crontab("nobody", "-", content=people)
    write({**JOB, "minute": [30, 5], "weekday": "mon-fri", "environment": ["B=2", "A = 1"]})
    added = MARKED.encode() + b"A=1\nB=2\n5,30 * * * 1-5 /bin/true\n"
    assert crontab("nobody", "-l") == people + added
    write({**JOB, "special": "midnight", "command": "date +\\%F%in"})
    assert crontab("nobody", "-l") == people + MARKED.encode() + b"A=1\nB=2\n@daily date +\\%F%in\n"
    write(GONE)
    assert crontab("nobody", "-l") == people


def test_the_last_job_takes_the_crontab_with_it() -> None:
    """A user who had no crontab has none again."""
    write(JOB)
    write(GONE)
    assert not (SPOOL / "nobody").exists()


def test_comments_at_the_top_survive_in_a_table_that_crontab_did_not_install() -> None:
    """Debian's ``crontab -l`` hides up to three of them as if it had written them."""
    crontab("nobody", "-", content=b"")
    (SPOOL / "nobody").write_bytes(b"# one\n# two\n# three\n# four\n@daily true\n")
    write(JOB)
    write(GONE)
    assert crontab("nobody", "-l") == b"# one\n# two\n# three\n# four\n@daily true\n"


def test_a_table_without_a_last_newline_is_mended() -> None:
    """Cron ignores such a table, and crontab refuses it."""
    crontab("nobody", "-", content=b"")
    (SPOOL / "nobody").write_bytes(b"@daily true")
    write(JOB)
    assert crontab("nobody", "-l").endswith(f"@daily true\n{MARKED}* * * * * /bin/true\n".encode())


def test_a_job_moves_to_another_user() -> None:
    """It leaves the crontab of the former one."""
    write({**JOB, "hour": 3})
    write({"name": NAME, "user": "root"})
    assert read(NAME)[NAME]["hour"] == "3"
    assert not (SPOOL / "nobody").exists()


def test_one_table_is_installed_for_all_jobs_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many jobs cost what one costs."""
    installed: list[str] = []
    install = cron.Provider._install

    def watched(self: Any, user: str, content: bytes) -> None:
        installed.append(user)
        install(self, user, content)

    monkeypatch.setattr(cron.Provider, "_install", watched)
    write(*({**JOB, "name": f"{NAME} {number}", "minute": number} for number in range(50)))
    assert installed == ["nobody"]


def test_a_name_of_two_jobs_is_refused_and_names_their_users() -> None:
    """Which of them is meant is a question for people."""
    for user in ("nobody", "root"):
        crontab(user, "-", content=f"{MARKED}@daily true\n".encode())
    assert "of nobody and root" in read(NAME)[NAME]
    assert read() == {}


def test_what_cron_refuses_fails_with_its_words_and_changes_nothing() -> None:
    """The crontab is checked before it is installed."""
    crontab("nobody", "-", content=b"@daily true\n")
    with pytest.raises(CommandError, match="bad minute"):
        write({**JOB, "minute": "7-99"})
    assert crontab("nobody", "-l") == b"@daily true\n"


def test_an_unknown_user_fails() -> None:
    """A crontab for nobody known would never run."""
    with pytest.raises(Exception, match="ra-test-nobody"):
        write({**JOB, "user": "ra-test-nobody"})


def test_a_second_run_has_nothing_to_do() -> None:
    """What was asked is what is read, in the words of the manifest."""
    runtime = Runtime(Registry.from_path(), log=Log("off"))
    manifest = {
        "project": "ra-test",
        "resources": {
            f"Cron[{NAME}]": {"user": "nobody", "command": " x % y ", "minute": [30, "5"], "weekday": "Tuesday"},
            f"Cron[{NAME} 2]": {"command": "x", "special": "annually", "environment": ["B=1", "A = 2"]},
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
def test_a_field_has_one_spelling(field: str, value: Any, expected: str) -> None:
    """Numbers in text, sorted where that changes nothing; what is not understood is left for validation."""
    assert cron.canonical(field, value) == expected
    assert cron.canonical(field, expected) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("minute", "60"), ("hour", "24"), ("monthday", "0"), ("month", "13"), ("weekday", "8"), ("month", "monday")],
        *[("hour", "9-5"), ("minute", "5/10"), ("minute", "*/0"), ("minute", ","), ("minute", "1-"), ("minute", "-1")],
    ],
)
def test_times_that_do_not_exist_are_refused(field: str, value: str) -> None:
    """Before cron sees them, each with its field."""
    (problem,) = cron.Provider().validate(None, {**EVERY, field: cron.canonical(field, value)})
    assert problem.attribute == field


def test_a_word_and_times_exclude_each_other() -> None:
    """One of them would be ignored."""
    (problem,) = cron.Provider().validate(None, {**EVERY, "special": "daily", "hour": "3"})
    assert problem.attribute == "hour"


HOSTILE = ["a\nb", "a\r", "\x00", "a\x1b[2J", "\n* * * * * root evil", "x\n"]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("attribute", ["name", "user", "command", "minute", "environment"])
def test_nothing_becomes_a_second_line(attribute: str, value: str) -> None:
    """Line breaks and control characters are refused by the data types."""
    accepts = TYPE.accepts[attribute]
    assert not accepts([value] if attribute == "environment" else value)
    assert not accepts([f"A={value}"])


@pytest.mark.parametrize("user", ["-l", "a:b", "a/b", "", "a b"])
def test_a_user_cannot_be_an_option_or_a_path(user: str) -> None:
    """The name goes to a program."""
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
def test_a_job_that_was_added_reads_back_and_goes_without_a_trace(content: bytes, job: dict[str, Any]) -> None:
    """For any table, and a second edit to the same changes nothing."""
    (job,) = cron.Provider().canonicalize(None, [job])
    if job.get("special", "absent") != "absent":
        job.update({field: "*" for field in EVERY if field != "special"})
    name = job["name"] = f"{job['name']} ra-test"
    table = Lines(content)
    cron.edit(table, {name: job})
    added = table.content
    (found,) = (block.job for block in cron.blocks(table) if block.job["name"] == name)
    assert {key: found[key] for key in job} == job
    cron.edit(table, {name: job})
    assert table.content == added
    cron.edit(table, {name: None})
    assert table.content == content
