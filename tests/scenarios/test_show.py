"""``show`` and ``facts``: a saved plan, and what is known about the machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

MANIFEST = """
    project: site
    resources:
      Widget[new]: {size: 1, colour: "a\\nb\\n", force: true, notify: "Daemon[d]"}
      Widget[old]: {size: 2, labels: {b: 2}}
      Widget[later]: {colour: "is ${Widget[new].serial}", noop: true}
      Widget[replaced]: {image: new, lifecycle: {replace: delete_first}}
      Daemon[d]: {ensure: running}
      Widget[gone]: {ensure: absent}
      Errand[run]: {}
    outputs: {size: "${Widget[new].size}"}
    """


@pytest.fixture
def planned(bench: Bench) -> Bench:
    """Return a bench with a saved plan of every kind of step."""
    widgets = {
        name: {"name": name, "ensure": "present", "size": 1, "image": "x"} for name in ("old", "replaced", "gone")
    }
    bench.put("widget", **widgets)
    bench.put("daemon", d={"name": "d", "ensure": "stopped"})
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    return bench


def test_a_saved_plan_is_shown_as_it_was_planned(planned: Bench) -> None:
    """Text and JSON are those of ``plan``, and no provider is called."""
    plan = planned.plan(MANIFEST, "-o", "later.json")
    assert plan.code == 0, plan
    document = planned.plan(MANIFEST, "--json").document
    called = len(planned.calls("widget"))
    output = planned.run("show", "later.json")
    assert (output.code, output.out, output.err) == (0, plan.out, "")
    assert planned.run("show", "later.json", "--json").document == document
    assert len(planned.calls("widget")) == called


def test_deferred_steps_and_what_is_read_again_are_shown_as_they_were_planned(bench: Bench) -> None:
    """The reason of a deferral and the step before a resource in sync come from the document alone."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.probe(
        """
        def get(self, context, names=None):
            if not Path("way").exists():
                raise RuntimeError("no way yet")
            return list(self._rows().values())
        def set(self, context, changes): self._done(changes)
        """
    )
    bench.put("widget", a={"name": "a", "ensure": "present", "size": 1})
    way = f"File[{bench.home}/way]"
    resources = f"{{'{way}': {{content: ''}}, 'Probe[a]': {{}}, 'Widget[a]': {{size: 1, require: '{way}'}}}}"
    plan = bench.plan(f"{{project: site, resources: {resources}}}", "-v", "-o", "later.json")
    assert "(decided at its turn: no way yet" in plan.out
    assert f"  Widget[a] (read again after {way})" in plan.out
    assert bench.run("show", "later.json", "-v").out == plan.out


def test_a_stale_plan_is_shown_with_a_warning(planned: Bench) -> None:
    """It is not refused, as ``apply`` would."""
    plan = planned.plan(MANIFEST, "-o", "later.json")
    planned.apply("project: site\nresources: {}\n")
    assert planned.apply(MANIFEST).code == 0
    output = planned.run("show", "later.json")
    assert (output.code, output.out) == (0, plan.out)
    assert "Warning: later.json: the plan is stale: state has been written since then: lineage was ''" in output.err


def test_a_plan_is_shown_as_one_document_where_its_state_cannot_be_read(planned: Bench) -> None:
    """Whether it is stale is unknown then, which is a warning."""
    planned.plan(MANIFEST, "-o", "later.json")
    planned.write("bad.db", "no database\n").chmod(0o600)
    output = planned.run("show", "later.json", "--json", "--state", f"sqlite:{planned.home}/bad.db")
    assert (output.code, json.loads(output.out)["project"]) == (0, "site")
    assert "Warning: later.json: whether the plan is stale is unknown: " in output.err


def test_a_plan_that_cannot_be_saved_is_one_document_with_the_reason(planned: Bench) -> None:
    """It is saved before it is shown."""
    output = planned.plan(MANIFEST, "--json", "-o", "/proc/later.json")
    assert (output.code, json.loads(output.out).keys()) == (1, {"diagnostics", "exit_code"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("resources: {}\n", "this is no saved plan, as plan -o writes it"),
        ('{"format_version": 99}', "format_version 99 is not a plan that this version saved"),
        ('{"format_version": 1, "manifest": {}}', "this is not a plan as it was saved"),
        ('{"format_version": 1, "manifest": {}, "steps": [{"notifies": 3}]}', "this is not a plan as it was saved"),
        (None, "there is no such file"),
    ],
)
def test_what_is_no_plan_is_refused(bench: Bench, content: str | None, message: str) -> None:
    """Exit code 65, as for a wrong manifest."""
    if content is not None:
        bench.write("later.json", content)
    result = bench.run("show", "later.json")
    assert (result.code, result.out) == (65, "")
    assert result.err.startswith(f"later.json: {message}")


def test_a_fact_is_shown_by_the_name_that_manifests_use(bench: Bench) -> None:
    """A single value as it is, several a line each, and every name that is listed can be asked for."""
    lines = dict(line.split(": ", 1) for line in bench.run("facts").out.splitlines())
    assert bench.run("facts", "kernel").out == f"{lines['kernel']}\n" == "Linux\n"
    release = bench.run("facts", "os.release").out.splitlines()
    assert f"os.release.major: {lines['os.release.major']}" in release
    document = bench.run("facts", "--json").document
    assert json.loads(bench.run("facts", "os", "--json").out) == document["os"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("os.famly", "; did you mean 'os.family'?"), ("kernl", "; did you mean 'kernel'?"), ("kernel.x.y", ""), (".", "")],
)
def test_an_unknown_fact_is_an_error(bench: Bench, name: str, hint: str) -> None:
    """Exit code 1, with the nearest name."""
    result = bench.run("facts", name)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"Error: there is no fact '{name}'{hint}")


@pytest.mark.parametrize("name", ["site.yaml", "site.json", "site.py"])
def test_a_failure_of_a_saved_plan_ends_in_the_place_of_the_manifest(planned: Bench, name: str) -> None:
    """As in a run of the manifest itself; the line of a file that has changed since it was saved is not shown."""
    texts = {
        "site.yaml": "project: site\nresources:\n  Widget[a]: {force: true}\n  Widget[bad]: {size: 13}\n",
        "site.json": '{"project": "site", "resources": {\n"Widget[a]": {},\n\n"Widget[bad]": {"size": 13}}}\n',
        "site.py": "PROJECT = 'site'\ndef manifest(m):\n    m.widget('a')\n    m.widget('bad', size=13)\n",
    }
    path = planned.write(name, texts[name])
    planned.type(
        "widget",
        planned.NAMED + '"size": Attribute("Optional[Integer]", "s"), "force": Attribute("Optional[Boolean]", "f"),',
        provider="""
        def get(self, context, names=None):
            return []

        def create(self, context, name, should):
            context.fail("is broken")
        """,
    )
    assert planned.run("plan", path, "-o", "later.json").code == 0
    path.write_text(f"\n{path.read_text()}")
    result = planned.run("apply", "later.json")
    assert result.code == 1
    assert f"Error: Widget[bad]: is broken ({path}:4)" in result.err.replace(" Creating failed:", ""), result.err
    assert " | " not in result.err


#: A type beside a manifest, with a parameter, which a plan shows for a creation.
TINY = """
    from resource_api import Attribute, TypeDefinition

    TYPE = TypeDefinition(
        name="tiny",
        attributes={
            "name": Attribute("String", "Its name.", kind="namevar"),
            "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
            "labels": Attribute("Optional[Hash[String, Any]]", "Its labels."),
            "id": Attribute("Optional[Integer]", "Its number.", kind="read_only"),
            "force": Attribute("Optional[Boolean]", "Whether it is forced.", kind="parameter"),
            "given": Attribute("Optional[Hash[String, Any]]", "Steers it.", kind="parameter"),
        },
        features={"simple_get_filter", "plan"},
    )
    """
TINY_PROVIDER = """
    from pathlib import Path

    from resource_api import Planned, SimpleProvider


    class Provider(SimpleProvider):
        def get(self, context, names=None):
            return [{"name": name, "ensure": "present"} for name in names if Path(name).exists()]

        def plan(self, context, name, is_, should):
            return Planned(should, ["id"] if should.get("given") else [])

        def create(self, context, name, should):
            Path(name).touch()
    """


@pytest.fixture
def saved_elsewhere(bench: Bench) -> Bench:
    """Return a bench with a saved plan in another directory than its manifest and the type that this uses."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.write("site/types/tiny.py", TINY)
    bench.write("site/providers/tiny.py", TINY_PROVIDER)
    bench.write("site/site.yaml", f"project: p\nresources: {{'Tiny[{bench.home}/made]': {{force: true}}}}")
    (bench.home / "plans").mkdir()
    plan = bench.run("plan", "site/site.yaml", "-o", "plans/p.json")
    assert (plan.code, "force: true" in plan.out) == (0, True), plan
    assert bench.run("show", "plans/p.json").out == plan.out
    return bench


def test_a_saved_plan_finds_the_types_beside_its_manifest(saved_elsewhere: Bench) -> None:
    """Wherever it was saved, and through a link too."""
    (saved_elsewhere.home / "link").symlink_to("plans")
    applied = saved_elsewhere.run("apply", "link/p.json")
    assert (applied.code, (saved_elsewhere.home / "made").exists()) == (0, True), applied


def test_a_saved_plan_obeys_the_policies_beside_its_manifest(saved_elsewhere: Bench) -> None:
    """Also those that were written after it."""
    forbidding = "def resource(resource):\n    yield 'is forbidden'\n"
    saved_elsewhere.write("site/policies/none.py", forbidding)
    applied = saved_elsewhere.run("apply", "plans/p.json")
    assert (applied.code, (saved_elsewhere.home / "made").exists()) == (65, False), applied
    assert "is forbidden" in applied.err


def test_a_saved_plan_executes_no_code_that_others_can_change(saved_elsewhere: Bench) -> None:
    """The directory of its manifest is checked as when it was planned."""
    (saved_elsewhere.home / "site" / "types" / "tiny.py").chmod(0o666)
    applied = saved_elsewhere.run("apply", "plans/p.json")
    assert applied.code == 65
    assert "is not executed, because others could have changed it" in applied.err


def test_values_that_are_not_known_yet_are_shown_as_they_were_planned(saved_elsewhere: Bench) -> None:
    """Parts of attributes, parameters and outputs, and predictions; a null that was declared stays null."""
    unknown = "'${Widget[w].serial}'"
    manifest = f"""
        project: p
        values: {{nothing: null}}
        resources:
          Widget[w]: {{}}
          Tiny[a]:
            labels: {{a: {unknown}, b: null, c: [1, 'x${{Widget[w].serial}}']}}
            given: {{a: {unknown}, b: null}}
            force: ${{values.nothing}}
        outputs: {{o: {{a: {unknown}, b: 1}}, p: {unknown}}}
        """
    plan = saved_elsewhere.run("plan", saved_elsewhere.write("site/site.yaml", manifest), "-o", "plans/p.json")
    assert plan.code == 0, plan
    for line in (
        "    labels: (none) → {a: (known after apply), b: null, c: [1, (known after apply)]}",
        "        id: (none) → (known after apply) (predicted)",
        "     given: {a: (known after apply), b: null}",
        "    o: (none) → {a: (known after apply), b: 1}",
    ):
        assert line in plan.out.splitlines(), plan.out
    assert "force" not in plan.out
    assert saved_elsewhere.run("show", "plans/p.json").out == plan.out
