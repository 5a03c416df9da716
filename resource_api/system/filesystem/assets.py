"""Makes values of what manifests say of assets and archives: looks at contents once, by SHA-256, and opens them later.

What a URL leads to is fetched when it is opened, not before. How contents are read is another module's, which is only
loaded when a manifest has any.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import finalize

from resource_api.model.values.assets import KINDS, Content, ContentSpec
from resource_api.model.values.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.system.filesystem.contents import Listing

    #: A digest, and what reads the content that has it.
    Found = tuple[str, Callable[..., Any]]


class Assets:
    """Makes contents of wishes; each file and directory is looked at once, and each URL fetched once."""

    def __init__(self) -> None:
        """Know no content yet."""
        self._digests: dict[str, str] = {}
        self._listings: dict[str, Listing] = {}
        self._fetched: dict[str, BinaryIO] = {}

    def __call__(self, wish: ContentSpec, file: str) -> Content:
        """Give the content that a manifest's ``file`` asks for. Raises ``ValueError`` with a sentence for people."""
        look: Callable[[ContentSpec, str], Found] = getattr(self, f"_{wish.origin}")
        try:
            digest, read = look(wish, os.path.join(os.path.dirname(file), str(wish.given)))  # noqa: PTH118, PTH120 - text
        except OSError as error:
            msg = f"{wish.given} cannot be read: {(error.strerror or str(error)).lower()}"
            raise ValueError(msg) from error
        except ResourceError as error:
            raise ValueError(str(error)) from error
        if wish.sha256 and digest != wish.sha256:
            msg = f"the {wish.word} has the SHA-256 {digest}, not {wish.sha256}"
            raise ValueError(msg)
        return KINDS[wish.word](digest, wish.origin, wish.given, read)

    def _text(self, wish: ContentSpec, _path: str) -> Found:
        from resource_api.system.filesystem import contents  # noqa: PLC0415 - few manifests have contents

        raw = str(wish.given).encode()
        return contents.digest(raw), partial(contents.held, raw)

    def _file(self, wish: ContentSpec, path: str) -> Found:
        from resource_api.system.filesystem import contents  # noqa: PLC0415 - few manifests have contents

        digest = self._digests.get(path)
        if digest is None:
            digest = self._digests[path] = contents.digest_of(path)
        if wish.word == "asset":
            return digest, partial(contents.Verified, path, digest)
        return digest, partial(contents.unpacked, partial(contents.whole, path, digest))

    def _url(self, wish: ContentSpec, _path: str) -> Found:
        from resource_api.system.filesystem import contents  # noqa: PLC0415 - few manifests have contents
        from resource_api.system.filesystem import download as fetching  # noqa: PLC0415 - the same

        fetching.check(wish.given)
        fetched = partial(self._fetch, wish.given, wish.sha256)
        return wish.sha256, fetched if wish.word == "asset" else partial(contents.unpacked, fetched)

    def _fetch(self, url: str, digest: str) -> BinaryIO:
        from resource_api.system.filesystem import download as fetching  # noqa: PLC0415 - the same  # noqa: PLC0415 - when it is opened

        if digest not in self._fetched:
            file = self._fetched[digest] = fetching.fetch(url, digest)
            finalize(self, file.close)
        return fetching.again(self._fetched[digest])

    def _directory(self, _wish: ContentSpec, path: str) -> Found:
        from resource_api.system.filesystem import contents  # noqa: PLC0415 - few manifests have contents

        listing = self._listings.get(path)
        if listing is None:
            listing = self._listings[path] = tuple(contents.listed(path))
        told = [[member.name, member.kind, member.mode, digest or member.target] for member, digest in listing]
        return contents.digest_told(told), partial(contents.members_listed, path, listing)

    def _files(self, wish: ContentSpec, _path: str) -> Found:
        from resource_api.system.filesystem import contents  # noqa: PLC0415 - few manifests have contents

        told = [[name, content.word, content.sha256] for name, content in wish.given]
        return contents.digest_told(told), partial(contents.members_named, wish.given)
