"""Import and refresh record the same values as apply, and no secret unsealed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Registry, Runtime, Sensitive
from resource_api.model.values.errors import UsageError
from resource_api.runtime.import_resources import import_resources
from resource_api.runtime.state_refresh import refresh
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter22 and more"


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """Return a runtime with its own state."""
    return Runtime(Registry.from_path(), state=f"sqlite:{tmp_path}/state/state.db")


def manifest(path: Path, **attributes: Any) -> dict[str, Any]:
    """Return a manifest of one file; its content is secret by reference, unless attributes are given."""
    content = attributes or {"content": "pw=${inputs.pw}"}
    return {
        "project": "site",
        "inputs": {"pw": {"type": "Sensitive[String]"}},
        "resources": {f"File[{path}]": content},
    }


def saved_plan(tmp_path: Path) -> bytes:
    """Return the content of every file of the state."""
    return b"".join(file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file())


def test_an_import_seals_what_is_secret_by_reference(runtime: Runtime, tmp_path: Path) -> None:
    """The provider returns it plain, as it is in the file."""
    path = tmp_path / "file"
    path.write_text(f"pw={SECRET}")
    import_resources(runtime, manifest(path), [f"File[{path}]"], None, {"pw": Sensitive(SECRET)})
    assert str(path).encode() in saved_plan(tmp_path)
    assert SECRET.encode() not in saved_plan(tmp_path)


def test_a_refresh_seals_what_is_secret_by_reference(runtime: Runtime, tmp_path: Path) -> None:
    """A secret that another process has written is sealed too."""
    path = tmp_path / "file"
    runtime.apply(manifest(path), {"pw": Sensitive("another secret")})
    path.write_text(f"pw={SECRET}")
    assert refresh(runtime, manifest(path), {"pw": Sensitive("another secret")}).references == [f"File[{path}]"]
    assert SECRET.encode() not in saved_plan(tmp_path)


def test_an_import_records_nothing_that_is_not_declared(runtime: Runtime, tmp_path: Path) -> None:
    """The content of a file is not recorded when only its mode is declared."""
    path = tmp_path / "file"
    path.write_text(SECRET)
    import_resources(runtime, manifest(path, mode="0600"), [f"File[{path}]"], None, {"pw": "unused"})
    assert SECRET.encode() not in saved_plan(tmp_path)


def test_an_import_keeps_a_recorded_protection(runtime: Runtime, tmp_path: Path) -> None:
    """It outlives its declaration: a resource that was there before us stays protected when it becomes ours."""
    path = tmp_path / "file"
    path.touch(0o600)
    name, inputs = StackName("site", "default"), {"pw": "unused"}
    runtime.apply(manifest(path, mode="0600", lifecycle={"protect": True}), inputs)
    for owned in (False, True):
        (record,) = runtime.store.load(name).records.values()
        assert (record.owned, record.lifecycle.protect) == (owned, True)
        import_resources(runtime, manifest(path, mode="0600"), [f"File[{path}]"], None, inputs)


def test_a_refresh_detects_drift_of_an_imported_resource(runtime: Runtime, tmp_path: Path) -> None:
    """It does so too when the imported value differed from the declared one; a secret stays sealed."""
    path = tmp_path / "file"
    arguments = {"pw": Sensitive(SECRET)}
    path.write_text(f"pw={SECRET}, once")
    import_resources(runtime, manifest(path), [f"File[{path}]"], None, arguments)
    assert refresh(runtime, manifest(path), arguments).references == []
    path.write_text(f"pw={SECRET}, and again")
    assert refresh(runtime, manifest(path), arguments).references == [f"File[{path}]"]
    assert refresh(runtime, manifest(path), arguments).references == []
    assert SECRET.encode() not in saved_plan(tmp_path)
    assert runtime.plan(manifest(path), arguments).drift == []


def test_a_refresh_records_what_is_selected_and_under_noop_nothing(runtime: Runtime, tmp_path: Path) -> None:
    """``--noop`` tells what would be recorded; ``--target`` and ``--exclude`` select among what is recorded."""
    site = {"project": "site", "resources": {f"File[{tmp_path}/{name}]": {"content": "x"} for name in "ab"}}
    runtime.apply(site)
    first, second = (f"File[{tmp_path}/{name}]" for name in "ab")
    for name in "ab":
        (tmp_path / name).write_text("y")
    before = saved_plan(tmp_path)
    assert refresh(runtime, site, noop=True).references == [first, second]
    assert saved_plan(tmp_path) == before
    assert refresh(runtime, site, excludes=[second]).references == [first]
    with pytest.raises(UsageError, match=r"--target File\[/z\] matches no resource"):
        refresh(runtime, site, targets=["File[/z]"])
    another = "urn:resource:live::site::file::/z"
    with pytest.raises(UsageError, match=f"--exclude: {another} is of project site, stack live"):
        refresh(runtime, site, excludes=[another])
    with pytest.raises(UsageError, match=f"{another} is of project site, stack live"):
        import_resources(runtime, site, [another], None)
    assert refresh(runtime, site, targets=["File"]).references == [second]
