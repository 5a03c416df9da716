"""What import and refresh record is what apply would: no more, and no secret in clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Registry, Runtime, Sensitive
from resource_api.runtime.import_resource import import_resource
from resource_api.runtime.refresh import refresh

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter22 and more"


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """Give a runtime with a state of its own."""
    return Runtime(Registry.from_path(), state=f"sqlite:{tmp_path}/state/state.db")


def manifest(path: Path, **attributes: Any) -> dict[str, Any]:
    """Declare one file whose content is secret by reference, unless told otherwise."""
    content = attributes or {"content": "pw=${inputs.pw}"}
    return {
        "project": "upkeep",
        "inputs": {"pw": {"type": "Sensitive[String]"}},
        "resources": {f"File[{path}]": content},
    }


def kept(tmp_path: Path) -> bytes:
    """Give every byte that state has written."""
    return b"".join(file.read_bytes() for file in (tmp_path / "state").iterdir())


def test_an_import_seals_what_is_secret_by_reference(runtime: Runtime, tmp_path: Path) -> None:
    """It comes back plain from the file that it was put in."""
    path = tmp_path / "file"
    path.write_text(f"pw={SECRET}")
    import_resource(runtime, manifest(path), f"File[{path}]", None, {"pw": Sensitive(SECRET)})
    assert str(path).encode() in kept(tmp_path)
    assert SECRET.encode() not in kept(tmp_path)


def test_a_refresh_seals_it_too(runtime: Runtime, tmp_path: Path) -> None:
    """Also a secret that somebody else has put in its place."""
    path = tmp_path / "file"
    runtime.apply(manifest(path), {"pw": Sensitive("another secret")})
    path.write_text(f"pw={SECRET}")
    assert refresh(runtime, manifest(path), {"pw": Sensitive("another secret")}) == [f"File[{path}]"]
    assert SECRET.encode() not in kept(tmp_path)


def test_an_import_keeps_nothing_that_was_not_declared(runtime: Runtime, tmp_path: Path) -> None:
    """The content of a file that only its mode is managed of is nobody's business."""
    path = tmp_path / "file"
    path.write_text(SECRET)
    import_resource(runtime, manifest(path, mode="0600"), f"File[{path}]", None, {"pw": "unused"})
    assert SECRET.encode() not in kept(tmp_path)


def test_a_refresh_sees_what_was_imported_move(runtime: Runtime, tmp_path: Path) -> None:
    """Also where it was not as declared, and has never been asked for; a secret stays one."""
    path = tmp_path / "file"
    given = {"pw": Sensitive(SECRET)}
    path.write_text(f"pw={SECRET}, once")
    import_resource(runtime, manifest(path), f"File[{path}]", None, given)
    assert refresh(runtime, manifest(path), given) == []
    path.write_text(f"pw={SECRET}, and again")
    assert refresh(runtime, manifest(path), given) == [f"File[{path}]"]
    assert refresh(runtime, manifest(path), given) == []
    assert SECRET.encode() not in kept(tmp_path)
    assert runtime.plan(manifest(path), given).drift == []
