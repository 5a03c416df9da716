"""``rehearse --damage``: what was made is damaged, and the next run must see and mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.testing import rehearse

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench

PROBE: Final = """
project: damaged
resources:
  Probe[a]: {size: 1, colour: red}
"""


def mended(bench: Bench, manifest: str, *options: str) -> tuple[int, dict[str, Any], list[tuple[str, str, str]]]:
    """Rehearse a manifest with damages; return the exit code, the document, and the findings of the verdict."""
    result = bench.run("rehearse", bench.write("site.yaml", manifest), "--damage", "--json", *options)
    assert "verdicts" in result.document, result.out + result.err
    [verdict] = [item for item in result.document["verdicts"] if item["question"] == "mended"]
    assert verdict["ok"] == (not verdict["findings"]), verdict
    return result.code, result.document, [(f["reference"], f["attribute"], f["text"]) for f in verdict["findings"]]


def test_what_is_damaged_is_mended_by_the_next_run(bench: Bench) -> None:
    """Files, directories, links, users, groups: removed and changed, seen and mended; the rest is told."""
    (bench.home / "gone").write_text("back again")
    code, document, result = mended(
        bench,
        f"""
        project: damaged
        inputs: {{key: {{type: 'Sensitive[String]', default: 'a $${{b}}'}}}}
        resources:
          File[{bench.home}/directory]: {{ensure: directory, mode: "0750"}}
          File[{bench.home}/directory/in]: {{content: "${{inputs.key}}", owner: root, mode: "0640"}}
          File[{bench.home}/link]: {{target: in}}
          File[{bench.home}/gone]: {{ensure: absent}}
          Group[rehearsed]: {{}}
          User[rehearsed]: {{gid: rehearsed, shell: /bin/sh}}
          Exec[make]: {{command: touch {bench.home}/made, creates: {bench.home}/made}}
        """,
    )
    assert (code, result) == (0, [])
    [verdict] = [item for item in document["verdicts"] if item["question"] == "mended"]
    # mode; removed, content, owner, mode; removed, target; back again; removed, gid, shell
    assert verdict["text"] == "11 damages"
    messages = {value["reference"]: value["text"] for value in document["not_damaged"]}
    assert messages.keys() == {f"File[{bench.home}/directory]", "Exec[make]", "Group[rehearsed]"}
    assert "not empty" in messages[f"File[{bench.home}/directory]"]
    assert messages["Exec[make]"] == "what it does cannot be read back"


def test_what_the_next_run_does_not_see_is_named_with_its_attribute(bench: Bench) -> None:
    """A comparison of the provider that hides a difference cannot hide the damage."""
    bench.probe(
        """
        def insync(self, context, name, attribute, is_, should): return True if attribute == "colour" else None
        def set(self, context, changes):
            for name, (is_, should) in changes.items():
                rows = self._rows()
                rows.pop(name, None)
                self._file().write_text(json.dumps(rows))
                if should["ensure"] != "absent":
                    self._put(name, {**(is_ or {}), **should})
        """,
        features=("custom_insync",),
    )
    code, document, result = mended(bench, PROBE)
    assert (code, result) == (2, [("Probe[a]", "colour", "colour was changed; the next run does not see it")])
    assert document["verdicts"][-1]["findings"][0]["place"].endswith("site.yaml:3")


def test_what_the_next_run_sees_and_does_not_mend_is_named(bench: Bench) -> None:
    """Files that stay different are named, as is a run that fails."""
    bench.probe(
        """
        def set(self, context, changes):
            with open(os.environ["BENCH"] + "/log", "a") as log:
                log.write("more")
            for name, (is_, should) in changes.items():
                if is_ and is_["size"] == 2:
                    raise ResourceError("too late")
            self._done(changes)
        """
    )
    code, _, result = mended(bench, PROBE)
    assert code == 2
    log = bench.things_of / "log"
    assert result == [
        ("Probe[a]", "", f"it was removed; after the next run {log} differs still"),
        ("Probe[a]", "size", "size was changed; the next run fails: too late"),
        ("Probe[a]", "colour", f"colour was changed; after the next run {log} differs still"),
    ]


@pytest.mark.parametrize("damage", [False, True])
def test_a_test_can_ask_for_damages(tmp_path: Path, damage: bool) -> None:  # noqa: FBT001
    """The library has the same verdict; without being asked it has none."""
    manifest = tmp_path / "site.yaml"
    manifest.write_text(f"resources: {{'File[{tmp_path}/made]': {{content: hi}}}}")
    result = rehearse(manifest, damage=damage)
    assert [verdict.question for verdict in result.verdicts] == ["run", "silent twice", "mended"][: 2 + damage]
    assert result.ok


def test_an_attribute_that_is_called_like_a_metaparameter_is_damaged(bench: Bench) -> None:
    """The damage is the attribute's, not that of a time limit of the run."""
    bench.type(
        "timed",
        f'{bench.NAMED} "timeout": Attribute("Integer", "t"),',
        base="BaseProvider",
        provider="""
        def _rows(self):
            file = Path(os.environ["BENCH"], "timed.json")
            return json.loads(file.read_text()) if file.exists() else {}
        def get(self, context, names=None): return list(self._rows().values())
        def set(self, context, changes):
            rows = self._rows() | {name: {**(is_ or {}), **should} for name, (is_, should) in changes.items()}
            present = {name: row for name, row in rows.items() if row["ensure"] == "present"}
            Path(os.environ["BENCH"], "timed.json").write_text(json.dumps(present))
        """,
    )
    code, document, result = mended(bench, "project: damaged\nresources:\n  Timed[a]: {timeout_: 5}\n")
    assert (code, result, document["not_damaged"]) == (0, [], [])
    assert document["verdicts"][-1]["text"] == "2 damages"


def test_an_update_that_does_nothing_is_a_finding(bench: Bench) -> None:
    """What is said is that it did not converge, once for each attribute."""
    bench.probe(
        """
        def set(self, context, changes):
            done = lambda is_, should: is_ is None or should["ensure"] == "absent"
            self._done({name: change for name, change in changes.items() if done(*change)})
        """
    )
    code, _, result = mended(bench, PROBE)
    assert code == 2
    assert [(attribute, text.partition(":")[0]) for _, attribute, text in result] == [
        ("size", "an update of size did not converge"),
        ("colour", "an update of colour did not converge"),
    ]


def test_why_something_is_not_damaged_is_said_in_words(bench: Bench) -> None:
    """Neither the manifest that is made for a damage, nor errors of the system, nor lines of a provider are shown."""
    (bench.home / "part").write_text("one\n")
    manifest = f"""
        project: damaged
        resources:
          File_line[{bench.home}/whole]: {{path: {bench.home}/lines, line: one}}
          Concat[{bench.home}/whole]: {{source: [{bench.home}/part]}}
          Cron[job]: {{user: root, command: /bin/true, minute: [1]}}
        """
    code, document, result = mended(bench, manifest)
    assert (code, result) == (0, [])
    messages = {item["attribute"]: item["text"] for item in document["not_damaged"]}
    assert messages["special"] == "special: 'minute' and 'special' exclude each other"
    assert (
        messages["line"] == "line: match must also find the line as it is declared, or the next run would add it again"
    )
    assert not [
        text for text in messages.values() if any(part in text for part in ("<mapping>", "Errno", "//", ".py:"))
    ]


def test_where_nothing_can_be_damaged_the_verdict_is_neither(bench: Bench) -> None:
    """It stands as a line, and changes no exit code."""
    manifest = f"resources: {{'Exec[touch {bench.home}/made]': {{creates: {bench.home}/made}}}}"
    result = bench.run("rehearse", bench.write("site.yaml", manifest), "--damage", "--orders", "1")
    assert "  free in order  -   0 other orders\n" in result.out
    assert "  mended         -   0 damages\n" in result.out
    assert result.code == 0
