"""Warnings about secrets that are too short to be masked where a program or a provider prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import Problem
from resource_api.model.values.values import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.values.masking import Mask

_MESSAGE: Final = "is too short to be masked in what programs and providers print"


def warnings(manifest: Manifest, inputs: Mapping[str, Any], entries: Iterable[Entry], mask: Mask) -> Iterator[Problem]:
    """Yield a warning for each of the secret ``inputs`` and attributes of ``entries`` that ``mask`` does not cover.

    An attribute that only repeats such an input has none.
    """
    named = list[Any]()
    for name, value in inputs.items():
        if not mask.covers(value):
            named.append(value)
            place = manifest.place(("inputs", name))
            yield Problem(None, f"input '{name}' {_MESSAGE}", "warning", "", *place, code="short_secret")
    for entry in entries:
        for name in sorted(entry.definition.sensitive):
            value = entry.should.get(name)
            if is_secret(value) and not mask.covers(value) and value not in named:
                place = manifest.place(entry.declaration, name)
                message = f"the secret '{name}' {_MESSAGE}"
                yield Problem(name, message, "warning", str(entry.reference), *place, code="short_secret")
