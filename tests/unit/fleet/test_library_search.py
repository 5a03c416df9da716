"""Shared libraries are looked for without starting programs."""

from __future__ import annotations

import ctypes.util
import subprocess
from typing import TYPE_CHECKING, Any

from resource_api.fleet import asyncssh_transport
from resource_api.fleet.asyncssh_transport import linker_cache

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_no_program_looks_for_a_library_that_the_linker_does_not_know(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The cache says that it is missing; what it names, or what another directory may have, is looked for."""
    started = list[Any]()

    def start(command: Any, **_: Any) -> None:
        started.append(command)
        raise OSError

    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"libknown.so.1\0")
    monkeypatch.setattr(asyncssh_transport, "_CACHE", cache)
    monkeypatch.setattr(subprocess, "Popen", start)
    before = ctypes.util.find_library
    with linker_cache():
        assert ctypes.util.find_library("missing") is None
        assert not started
        ctypes.util.find_library("known")
        assert started
    assert ctypes.util.find_library is before
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    started.clear()
    with linker_cache():
        ctypes.util.find_library("missing")
    assert started
