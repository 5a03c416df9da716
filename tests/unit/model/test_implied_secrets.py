"""The laws of implied secrets: what contains one, is derived from one or replaces one is not shown either."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Attribute, BaseProvider, DefinitionError, Registry, Runtime, TypeDefinition
from resource_api.model.sealed_secrets import Sealed, digest_secret, mark_secrets
from resource_api.model.values.values import Sensitive
from resource_api.render import json as documents
from resource_api.render import plan as plan_text
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from resource_api.model.change import Change
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.provider.context import Context

OLD: Final = "open-sesame-0001"
NEW: Final = "open-sesame-0002"

PAGE: Final = TypeDefinition(
    name="page",
    attributes={
        "name": Attribute("String", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", default="present"),
        "text": Attribute("Optional[String]"),
        "shape": Attribute("Optional[String]", kind="init_only"),
        "size": Attribute("Optional[Integer]", kind="read_only"),
        "sum": Attribute("Optional[String]", kind="read_only", derived_from="text"),
        "link": Attribute("Optional[Any]", kind="read_only"),
    },
)


class Pages(BaseProvider):
    """Keeps pages in memory, and returns read-only values computed from their texts."""

    world: Mapping[str, dict[str, Any]]

    def get(self, context: Context, names: Collection[Any] | None = None) -> list[dict[str, Any]]:  # noqa: ARG002 - the method's
        """Return all pages."""
        return [
            {
                **page,
                "size": len(page["text"]),
                "sum": sha256(page["text"].encode()).hexdigest(),
                "link": {"to": [f"http://x/?q={page['text']}"]} if page.get("shape") != "bare" else "none",
            }
            for page in self.world.values()
        ]

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:  # noqa: ARG002 - the method's
        """Apply the changes."""
        for name, change in changes.items():
            if change.should["ensure"] == "absent":
                del self.world[name]  # type: ignore[attr-defined] # a dictionary
                continue
            page = {key: getattr(value, "reveal", lambda value=value: value)() for key, value in change.should.items()}
            self.world[name] = {**self.world.get(name, {}), **page}  # type: ignore[index] # a dictionary


class Library:
    """A runtime with pages."""

    def __init__(self) -> None:
        """Start without pages."""
        self.world: dict[str, dict[str, Any]] = {}
        self.runtime = Runtime(registry_of((PAGE, type("Provider", (Pages,), {"world": self.world}))))

    def manifest(self, secret: str, **page: Any) -> dict[str, Any]:
        """Return a manifest of a page with a secret, and of one that refers to its read-only values."""
        return {
            "project": "library",
            "inputs": {"word": {"type": "Sensitive[String]", "default": secret}},
            "resources": {
                "Page[a]": {"text": "say ${inputs.word}", **page},
                "Page[b]": {"text": "${Page[a].sum} ${Page[a].link.to.0}", "shape": "bare"},
                "Page[c]": {"text": "${Page[a].size} letters"},
            },
        }

    def texts(self, plan: ExecutionPlan) -> str:
        """Return a plan as text and as JSON."""
        return "\n".join(plan_text.lines(plan)) + json.dumps(documents.plan(plan))

    def recorded(self) -> dict[str, Mapping[str, Any]]:
        """Return the recorded values of each page as read."""
        (name,) = self.runtime.store.stacks()
        records = self.runtime.store.load(name).records.values()
        return {record.title: record.is_ or {} for record in records}


@pytest.fixture
def library() -> Library:
    """Return a library."""
    return Library()


def traces(secret: str) -> list[str]:
    """Return the texts that would reveal a page's secret."""
    return [secret, sha256(f"say {secret}".encode()).hexdigest()]


class TestMarkSecrets:
    """``mark_secrets`` on the data that was read of a resource."""

    def test_a_row_without_secrets_is_returned_unchanged(self) -> None:
        """It is not copied, because nearly all rows have no secret."""
        row = {"name": "a", "text": "x", "sum": "y", "size": 1}
        assert mark_secrets(PAGE, row, {"text": "x"}) is row

    @pytest.mark.parametrize("should", [Sensitive("word-0815"), Sealed("digest")], ids=["declared", "recorded"])
    def test_derived_and_repeating_values_are_secret(self, should: Any) -> None:
        """The value, what is derived from it, and what repeats it in any spelling and depth; nothing else."""
        link = {"to": ["http://x/?q=word-0815"], "hex": b"word-0815".hex()}
        row = {"name": "a", "text": "word-0815", "sum": "5ea1", "size": 9, "link": link, "shape": None}
        result = mark_secrets(PAGE, row, {"text": should})
        assert {name for name, value in result.items() if isinstance(value, Sensitive)} == {"text", "sum", "link"}
        assert result["link"].reveal() == link
        assert result["size"] == 9

    def test_a_secret_that_was_read_marks_derived_values(self) -> None:
        """Although it is not declared."""
        result = mark_secrets(PAGE, {"text": Sensitive("word-0815"), "sum": "5ea1"}, {})
        assert result["sum"] == Sensitive("5ea1")

    def test_plain_parts_beside_a_secret_mark_nothing(self) -> None:
        """Of a value that contains a secret, only the secret marks the values that repeat it."""
        should = {"text": {"host": "db.example.org", "word": Sensitive("word-0815")}}
        row = {"name": "a", "link": "on db.example.org", "sum": None}
        assert mark_secrets(PAGE, row, should)["link"] == "on db.example.org"
        assert mark_secrets(PAGE, {**row, "link": "with word-0815"}, should)["link"] == Sensitive("with word-0815")

    def test_a_missing_value_stays_missing(self) -> None:
        """None stays None."""
        assert mark_secrets(PAGE, {"text": None, "sum": None}, {"text": Sensitive("x")}) == {"text": None, "sum": None}


class TestRuns:
    """From the manifest to state."""

    def test_references_to_secret_values_are_secret(self, library: Library) -> None:
        """For derived and repeating values; other values stay plain."""
        assert library.runtime.apply(library.manifest(OLD)).exit_code == 0
        stored = library.recorded()
        salt = library.runtime.store.load(library.runtime.store.stacks()[0]).salt
        assert stored["a"]["sum"] == digest_secret(sha256(f"say {OLD}".encode()).hexdigest(), salt)
        assert all(isinstance(stored["a"][name], Sealed) for name in ("text", "sum", "link"))
        assert isinstance(stored["b"]["text"], Sealed)
        assert stored["c"]["text"] == f"{len(OLD) + 4} letters"
        assert library.world["b"]["text"].startswith(sha256(f"say {OLD}".encode()).hexdigest())

    def test_nothing_changes_in_a_second_run(self, library: Library) -> None:
        """Marked values compare as before."""
        manifest = library.manifest(OLD)
        library.runtime.apply(manifest)
        name = library.runtime.store.stacks()[0]
        serial = library.runtime.store.load(name).serial
        report = library.runtime.apply(manifest)
        assert (report.summary.unchanged, library.runtime.store.load(name).serial) == (3, serial)

    def test_a_changed_secret_shows_neither_the_new_nor_the_old_one(self, library: Library) -> None:
        """In text and JSON, as change, as current value, and as drift."""
        library.runtime.apply(library.manifest(OLD))
        plan = library.runtime.plan(library.manifest(NEW))
        assert plan.summary.updated == 3
        output = library.texts(plan)
        assert not [trace for trace in (*traces(OLD), *traces(NEW)) if trace in output]

    def test_a_former_secret_is_not_shown(self, library: Library) -> None:
        """The manifest has a plain value now, but the current value is still the secret."""
        library.runtime.apply(library.manifest(OLD))
        manifest = library.manifest(OLD)
        manifest["resources"]["Page[a]"]["text"] = "nothing to hide"
        output = library.texts(library.runtime.plan({**manifest, "inputs": {"word": {"type": "Any", "default": 1}}}))
        assert "nothing to hide" in output
        assert not [trace for trace in traces(OLD) if trace in output]

    def test_drift_of_a_secret_shows_neither_side(self, library: Library) -> None:
        """A value that another program has written may be the next secret."""
        library.runtime.apply(library.manifest(OLD))
        library.world["a"]["text"] = NEW
        plan = library.runtime.plan(library.manifest(OLD))
        assert [drift.reference for drift in plan.drift] == ["Page[a]"]
        assert NEW not in library.texts(plan)

    @pytest.mark.parametrize("replace", [None, "delete_first"])
    def test_an_attribute_that_cannot_be_changed_shows_no_secret(self, library: Library, replace: str | None) -> None:
        """In the error, or in the replacement."""
        lifecycle = {"lifecycle": {"replace": replace}} if replace else {}
        library.runtime.apply(library.manifest(OLD, shape="${inputs.word}", **lifecycle))
        plan = library.runtime.plan(library.manifest(NEW, shape="${inputs.word}", **lifecycle))
        assert (plan.summary.failed, plan.summary.replaced) == ((1, 0) if replace is None else (0, 1))
        assert OLD not in library.texts(plan)
        assert NEW not in library.texts(plan)

    def test_outputs_of_secret_values_are_secret(self, library: Library) -> None:
        """By reference, within text, and by the name of a secret input; through values and outputs of outputs."""
        manifest = library.manifest(OLD)
        manifest["values"] = {"copy": ["${inputs.word}"]}
        manifest["outputs"] = {
            "sum": "${Page[a].sum}",
            "text": "it is ${Page[b].text}",
            "copy": "${values.copy}",
            "word": "plain",
            "size": "${Page[a].size}",
        }
        outputs = library.runtime.apply(manifest).outputs
        assert {name for name, value in outputs.items() if "<sensitive>" in repr(value)} == {
            "sum",
            "text",
            "copy",
            "word",
        }
        assert outputs["size"] == len(OLD) + 4


class TestDerivedFrom:
    """``derived_from`` in a type."""

    def test_it_must_name_an_attribute(self) -> None:
        """The nearest attribute is the hint."""
        attributes = {
            "name": Attribute("String", kind="namevar"),
            "text": Attribute("Optional[String]"),
            "sum": Attribute("Optional[String]", kind="read_only", derived_from="texts"),
        }
        with pytest.raises(
            DefinitionError, match="derived_from names the unknown attribute 'texts'; did you mean 'text'"
        ):
            TypeDefinition(name="page", attributes=attributes)

    def test_only_read_only_attributes_are_derived(self) -> None:
        """A settable attribute is secret through its declared value."""
        attributes = {
            "name": Attribute("String", kind="namevar"),
            "text": Attribute("Optional[String]", derived_from="name"),
        }
        with pytest.raises(DefinitionError, match="only a read_only attribute is derived_from another"):
            TypeDefinition(name="page", attributes=attributes)


def test_the_checksum_of_a_secret_file_is_recorded_sealed(tmp_path: Path) -> None:
    """A short secret could be guessed from it."""
    registry = Registry.from_path()
    runtime = Runtime(registry)
    manifest = {
        "project": "p",
        "inputs": {"pin": {"type": "Sensitive[String]", "default": "4711"}},
        "resources": {f"File[{tmp_path}/pin]": {"content": "${inputs.pin}"}, f"File[{tmp_path}/x]": {"content": "x"}},
    }
    assert runtime.apply(manifest).exit_code == 0
    records = runtime.store.load(runtime.store.stacks()[0]).records
    secret, plain = ((records["file", f"{tmp_path}/{name}"].is_ or {})["checksum"] for name in ("pin", "x"))
    assert isinstance(secret, Sealed)
    assert plain == sha256(b"x").hexdigest()
