"""Records, commits and histories to test a store with, and the content of a state as text.

The laws of stores must not enter here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from resource_api.model import codec
from resource_api.model.record import STATUSES, Commit, Intent, Record, RecordedLifecycle
from resource_api.model.sealed_secrets import digest_secret
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.record import StackState

    Write = tuple[StackName, Sequence[Intent], Commit]

WEB: Final = StackName("web", "default")
OTHER: Final = StackName("web", "staging")

texts = st.text(max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.builds(lambda text: digest_secret(text, b"salt"), texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
attributes = st.dictionaries(texts, values, max_size=3)
names = texts | st.tuples(texts, texts)
reference = st.sampled_from(["File[/a]", "User[b]", "Web_site[b]/File[d e]"])
references = st.lists(reference, max_size=2)
records = st.builds(
    Record,
    type=st.sampled_from(["file", "user"]),
    name=names,
    title=texts,
    inputs=attributes,
    should=attributes,
    is_=st.none() | attributes,
    owned=st.booleans(),
    requires=references,
    value_requires=st.dictionaries(texts, references, max_size=2),
    lifecycle=st.builds(
        RecordedLifecycle,
        protect=st.booleans(),
        replace=st.none() | st.just("never"),
        deleted_with=st.none() | reference,
    ),
    status=st.sampled_from(STATUSES),
    last_run=st.sampled_from(["", "2026-01-02T03:04:05+00:00"]),
    successor=st.sampled_from(["", "File[/a]"]),
    changed_at=st.sampled_from(["", "2026-01-02T03:04:05.678+00:00"]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Write]:
    """Return a sequence of writes to two stacks that put, drop, owe and pay some of the same few resources."""
    known = draw(st.lists(records, min_size=1, max_size=5, unique_by=lambda each: each.key))
    some = st.lists(st.sampled_from([each.key for each in known]), max_size=3, unique=True)
    history: list[Write] = []
    for _ in range(draw(st.integers(1, 5))):
        put = [each for each in known if draw(st.booleans())]
        intents = [Intent("run", *key, "title", "create", protect=draw(st.booleans())) for key in draw(some)]
        owed = {key: ["File[/a]"] for key in draw(some)}
        commit = Commit(
            put=put,
            drop=draw(some),
            resolved=draw(some),
            owed=owed,
            paid=draw(some),
            outputs=draw(st.none() | attributes),
        )
        history.append((draw(st.sampled_from([WEB, OTHER])), intents, commit))
    return history


def record(name: Any = "/a", **changes: Any) -> Record:
    """Return a small record."""
    kept = {"ensure": "present", "content": "hi"}
    return Record("file", name, str(name), kept, kept, kept, owned=True, requires=[])._replace(**changes)


def content(state: StackState) -> str:
    """Return a state without its lineage and salt as one exact text; only the order of records matters."""
    parts = [state.project, state.stack, str(state.serial), state.manifest, codec.encode(state.outputs)]
    parts += [codec.encode(each) for each in state.records.values()]
    parts += sorted(codec.encode(item) for item in [*state.owed.items(), *state.intents.values()])
    return "\n".join(parts)
