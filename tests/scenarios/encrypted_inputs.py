"""A manifest with inputs, of which one is secret, and the keys of encrypted files of inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyrage
from pyrage import x25519

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench, Outcome

_SITE: Final = """
    project: p
    inputs:
      port: {type: Integer}
      token: {type: "Sensitive[String]"}
      limits: {type: "Hash[String, Any]", default: {}}
    resources:
      Widget[a]: {size: "${inputs.port}"}
      Account[b]: {password: "${inputs.token}"}
    outputs: {limits: "${inputs.limits}"}
"""
SECRET: Final = "sesame-4711"


class Site:
    """A manifest with its stack's file, other files of inputs, and keys."""

    def __init__(self, bench: Bench) -> None:
        """Write the manifest and two identities."""
        self.bench = bench
        bench.write("site.yaml", _SITE)
        self.identities = [x25519.Identity.generate() for _ in range(2)]
        for name, identity in zip(("key", "foreign"), self.identities, strict=True):
            bench.write(name, f"# created: today\n{identity}\n").chmod(0o600)

    def encrypt(self, name: str, text: str, *, armoured: bool = False) -> Path:
        """Write a file that the first identity opens."""
        path = self.bench.write(name, "")
        path.write_bytes(pyrage.encrypt(text.encode(), [self.identities[0].to_public()], armored=armoured))
        return path

    def apply(self, *options: str, **environment: str) -> Outcome:
        """Apply the manifest; the secret is in no output."""
        result = self.bench.run("apply", "site.yaml", *options, **environment)
        assert SECRET not in result.out + result.err
        return result

    @property
    def values(self) -> tuple[int, str]:
        """The port and the token that were applied."""
        return self.bench.things("widget")["a"]["size"], self.bench.things("account")["b"]["password"]
