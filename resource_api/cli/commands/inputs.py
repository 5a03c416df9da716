"""``inputs``: what the inputs of a manifest are, and where each value is from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.cli import given_inputs, options
from resource_api.cli.session import with_session
from resource_api.model.values.text import escape
from resource_api.model.values.text import show as show_value
from resource_api.runtime.list_inputs import list_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.cli.session import Session
    from resource_api.runtime.list_inputs import InputValue

#: The width up to which places stand in one column.
_WIDEST: Final = 60


@options.group(examples=("resource-api inputs show site.yaml", "resource-api inputs show site.yaml --stack production"))
def inputs() -> None:
    """Show the inputs of a manifest, and where each is from."""


@inputs.command("show", examples=("resource-api inputs show site.yaml",))
@options.manifest
@options.manifest_inputs
@options.stack
@options.common
@with_session()
def show(session: Session, manifest: str, **_settings: Any) -> None:
    """Show the value of each input of MANIFEST, and where it is from; secrets are masked."""
    found = list_inputs(session.runtime, session.source(manifest), list(given_inputs.by_source(session.settings)))
    session.show(lambda: [_document(each) for each in found], lambda: _lines(found))


def _document(found: InputValue) -> dict[str, Any]:
    return {**found._asdict(), "place": found.place or None}


def _lines(found: Sequence[InputValue]) -> Iterator[str]:
    texts = [f"{escape(each.name)}: {show_value(each.value) if each.place else '(not given)'}" for each in found]
    width = max((len(text) for text in texts if len(text) <= _WIDEST), default=0)
    for text, each in zip(texts, found, strict=True):
        yield f"{text:{width}}  {escape(each.place)}".rstrip()
