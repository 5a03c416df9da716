"""Packages that the real pip installs from wheels of the test, without network."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Registry, Runtime
from resource_api.system.log import ForwardedLog, Log
from resource_api.testing import ProviderCompliance
from tests import wheels
from tests.http_server import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource
    from resource_api.model.report import LogEvent, RunReport

#: Options of pip without network: the tools that build a package are those of the system.
BUILD_HERE = ["--no-index", "--no-build-isolation", "--no-deps"]
TYPE = Registry.from_path().type("python_package")


@pytest.fixture(scope="module")
def venv_directory() -> Iterator[Path]:
    """Return a directory of our own with wheels: all above /tmp is open to others."""
    path = Path(mkdtemp(prefix="ra-test-", dir="/srv" if os.geteuid() == 0 else Path.home()))
    path.chmod(0o755)
    for name, version in (("ra_one", "1.0"), ("ra_one", "1.1"), ("ra_two", "2.0"), ("ra_three", "3.0")):
        wheels.build(path, name, version, *(["ra-three; extra == 'more'"] if name == "ra_two" else []))
    for version, needs in (("1.0", "ra-one<1.1"), ("2.0", "ra-one>=1.1")):
        wheels.build(path, "ra_app", version, needs)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def venv(venv_directory: Path) -> Path:
    """Return an environment that uses the pip of the system, as one of its own takes seconds."""
    subprocess.run(
        ["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", venv_directory / "venv"],
        check=True,
    )
    return venv_directory / "venv"


@pytest.fixture(autouse=True)
def _no_packages(venv: Path) -> Iterator[None]:
    """Remove the packages of the test."""
    yield
    for path in venv.glob("lib/python3*/site-packages/*ra_*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def apply(
    venv: Path, listen: Callable[[LogEvent], None] = lambda _event: None, **packages: dict[str, Any]
) -> RunReport:
    """Apply a manifest of packages from the wheels beside the environment."""
    common = {"install_options": ["--no-index", f"--find-links={venv.parent}"]}
    resources = {f"Python_package[{name} {venv}]": {**common, **package} for name, package in packages.items()}
    return Runtime(Registry.from_path(), log=ForwardedLog("debug", listen)).apply({"resources": resources})


def version(venv: Path, module: str) -> str:
    """Return the version of an installed module as Python imports it; empty without one."""
    code = f"import {module}; print({module}.version)"
    return subprocess.run([venv / "bin/python", "-c", code], check=False, capture_output=True, text=True).stdout.strip()


def test_python_imports_what_is_present(venv: Path) -> None:
    """In the declared version, the newest one, or none; a second run changes nothing."""
    observed = []
    for ensure in ("1.0.0", "latest", "absent"):
        assert apply(venv, RA_one={"ensure": ensure}).exit_code == 0
        assert apply(venv, ra_one={"ensure": ensure}).summary.unchanged == 1
        observed.append(version(venv, "ra_one"))
    assert observed == ["1.0", "1.1", ""]


def test_packages_of_one_environment_are_one_call_of_pip(venv: Path) -> None:
    """With an extra, which brings another package; where one cannot be installed, the others are, each by itself."""
    calls: list[LogEvent] = []
    report = apply(venv, calls.append, ra_one={}, ra_two={"extras": ["more"]})
    assert (report.exit_code, report.summary.created) == (0, 2)
    assert [version(venv, name) for name in ("ra_one", "ra_two", "ra_three")] == ["1.1", "2.0", "3.0"]
    run = [line.text for line in calls if line.text.startswith("Executing") and " -m pip " in line.text]
    assert ["--dry-run" in text for text in run] == [True, False]
    report = apply(venv, ra_one={"ensure": "1.0"}, ra_missing={})
    assert sorted(str(step.status) for step in report.steps) == ["failed", "success"]
    assert "ra-missing" in str([step.error for step in report.steps])


def effects(venv: Path, **packages: dict[str, Any]) -> dict[str, list[str]]:
    """Return what a plan of packages does besides, by package."""
    common = {"install_options": ["--no-index", f"--find-links={venv.parent}"]}
    resources = {f"Python_package[{name} {venv}]": {**common, **package} for name, package in packages.items()}
    plan = Runtime(Registry.from_path(), log=Log("off")).plan({"resources": resources})
    return {
        str(step.name[0]): [f"{side_effect.action} {side_effect.name[0]}" for side_effect in step.side_effects or ()]
        for step in plan.steps
    }


def test_what_pip_does_besides_is_in_the_plan(venv: Path) -> None:
    """What a package requires is installed, upgraded or downgraded; nothing is changed by asking."""
    assert effects(venv, ra_app={}) == {"ra-app": ["install ra-one"]}
    assert version(venv, "ra_one") == ""
    assert effects(venv, ra_two={"extras": ["more"]}, ra_app={}) == {
        "ra-two": ["install ra-three"],
        "ra-app": ["install ra-one"],
    }
    assert apply(venv, ra_one={"ensure": "1.1"}).exit_code == 0
    assert effects(venv, ra_app={"ensure": "1.0"}) == {"ra-app": ["downgrade ra-one"]}
    report = apply(venv, ra_one={"ensure": "1.1"}, ra_app={"ensure": "1.0"})
    assert report.exit_code == 1
    assert "would also downgrade ra-one" in str(report.steps[0].error)
    assert (version(venv, "ra_one"), version(venv, "ra_app")) == ("1.1", "")


@pytest.mark.parametrize("ensure", ["1.1", "absent"])
def test_a_package_that_another_one_needs_otherwise_is_not_changed(venv: Path, ensure: str) -> None:
    """The plan says what breaks; pip would say so only when it is done, and exit with 0."""
    assert apply(venv, ra_app={"ensure": "1.0"}).exit_code == 0
    assert effects(venv, ra_one={"ensure": ensure}) == {"ra-one": ["break ra-app"]}
    report = apply(venv, ra_one={"ensure": ensure}, ra_app={"ensure": "1.0"})
    assert report.exit_code == 1
    expected = f"would also break ra-app {venv}, which Python_package[ra_app {venv}] declares as present"
    assert expected in str(report.steps[0].error)
    assert version(venv, "ra_one") == "1.0"
    assert apply(venv, ra_one={"ensure": "1.1"}, ra_app={"ensure": "2.0"}).exit_code == 0
    assert apply(venv, ra_one={"ensure": "absent"}, ra_app={"ensure": "absent"}).exit_code == 0


def test_a_package_comes_from_its_source(venv: Path) -> None:
    """And is installed anew when it shall come from elsewhere."""
    new = venv.parent / "a b"
    new.mkdir()
    for source in (venv.parent, new):
        wheel = wheels.build(source, "ra_one", "1.0")
        declared = {"source": str(wheel)}
        assert [apply(venv, ra_one=declared).summary.unchanged for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    "source", ["{0}/{1}#egg=ra_src", "{0}/{1}#subdirectory=ra_src-1.0", "{0}/{1}#subdirectory=ra_src-1.0&egg=ra_src"]
)
def test_a_source_is_compared_as_far_as_pip_records_it(venv: Path, source: str) -> None:
    """Of a fragment only the directory, and no user."""
    project = venv.parent / "ra_src-1.0"
    for directory in (project, project / "ra_src-1.0"):
        write_project(directory)
    shutil.make_archive(str(project), "gztar", venv.parent, project.name)
    with serving(partial(Files, directory=str(venv.parent))) as base:
        for url in (base, base.replace("://", "://bob@")):
            declared = {"source": source.format(url, "ra_src-1.0.tar.gz"), "install_options": BUILD_HERE}
            assert apply(venv, ra_src=declared).exit_code == 0
            assert apply(venv, ra_src=declared).summary.unchanged == 1


def test_a_project_with_only_a_setup_program_can_be_edited(venv: Path) -> None:
    """From a directory in another spelling; pip itself would leave no description of it."""
    project = venv.parent / "project"
    write_project(project)
    (project / "pyproject.toml").unlink()
    declared = {"source": f"{project}/./", "editable": True, "install_options": BUILD_HERE}
    assert apply(venv, ra_src=declared).exit_code == 0
    assert apply(venv, ra_src=declared).summary.unchanged == 1
    (project / "ra_src.py").write_text("version = 2\n")
    assert version(venv, "ra_src") == "2"


def write_project(directory: Path) -> None:
    """Write the source of a package."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ra_src.py").write_text("version = 1\n")
    (directory / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='ra_src', version='1.0', py_modules=['ra_src'])\n"
    )
    (directory / "pyproject.toml").write_text("[build-system]\nrequires = ['setuptools']\n")


class Files(SimpleHTTPRequestHandler):
    """The files of a directory, without a log."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_an_interrupted_installation_is_done_again(venv: Path) -> None:
    """Pip alone would neither replace nor remove such a package."""
    for ensure in ("present", "absent"):
        assert apply(venv, ra_one={}).exit_code == 0
        [record] = venv.glob("lib/python3*/site-packages/ra_one*/RECORD")
        record.write_text("ra_one.py,,\n")  # as in the wheel: pip adds what it writes at the end
        assert apply(venv, ra_one={"ensure": ensure}).exit_code == 0
        assert apply(venv, ra_one={"ensure": ensure}).summary.unchanged == 1


def test_a_package_whose_files_a_loss_of_power_emptied_is_installed_again(venv: Path) -> None:
    """Their names were flushed, and the record; a file that was empty before is not counted."""
    assert apply(venv, ra_one={"ensure": "1.0"}).exit_code == 0
    [module] = venv.glob("lib/python3*/site-packages/ra_one.py")
    content = module.read_bytes()
    module.write_bytes(b"")
    assert apply(venv, ra_one={"ensure": "1.0"}).exit_code == 0
    assert module.read_bytes() == content
    assert apply(venv, ra_one={"ensure": "1.0"}).summary.unchanged == 1


@pytest.mark.parametrize("lost", [[], ["INSTALLER", "METADATA"]], ids=["whole", "without_its_head"])
@pytest.mark.parametrize("ensure", ["absent", "present", "2.0"])
def test_an_interrupted_removal_is_completed(venv: Path, ensure: str, lost: list[str]) -> None:
    """Pip puts the description of a package aside before its files, and removes its files in any order at the end."""
    wheels.build(venv.parent, "ra_one", "2.0")
    assert apply(venv, ra_one={"ensure": "1.0"}).exit_code == 0
    [description] = venv.glob("lib/python3*/site-packages/ra_one-1.0.dist-info")
    module = description.parent / "ra_one.py"
    aside = description.rename(description.with_name("~a_one-1.0.dist-info"))
    for name in lost:
        (aside / name).unlink()
    assert apply(venv, ra_one={"ensure": ensure}).exit_code == 0
    assert module.exists() is (ensure != "absent")
    assert apply(venv, ra_one={"ensure": ensure}).summary.unchanged == 1
    assert list(description.parent.glob("~*")) == []


def test_what_pip_has_put_aside_of_a_former_version_goes(venv: Path) -> None:
    """A package that is whole and has such a rest is removed with it."""
    wheels.build(venv.parent, "ra_one", "2.0")
    assert apply(venv, ra_one={"ensure": "1.0"}).exit_code == 0
    [description] = venv.glob("lib/python3*/site-packages/ra_one-1.0.dist-info")
    rest = description.with_name("~a_one-1.0.dist-info")
    shutil.copytree(description, rest)
    assert apply(venv, ra_one={"ensure": "2.0"}).exit_code == 0
    assert not rest.exists()
    shutil.copytree(next(description.parent.glob("ra_one-2.0.dist-info")), rest)
    assert [apply(venv, ra_one={"ensure": "absent"}).summary.deleted for _ in range(2)] == [1, 0]
    assert not rest.exists()


@pytest.mark.parametrize("name", ["", "-r", "a b", "a;b", "a@b", "a==1", "a\n", "../a", "é", "a-"])
def test_a_name_that_pip_would_read_otherwise_is_refused(name: str) -> None:
    """No option, no address, no requirement of a version."""
    assert not TYPE.accepts["name"](name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ensure": "latest", "source": "/srv/x"},
        {"editable": True},
        {"source": "x.whl"},
        {"source": "git+https://me:abcd@example.org/x"},
    ],
)
def test_what_excludes_each_other_is_refused(venv: Path, wrong: dict[str, Any]) -> None:
    """Before anything is done."""
    with pytest.raises(ManifestError):
        apply(venv, ra_one=wrong)


@pytest.mark.parametrize("declared", [{"source": "${inputs.url}"}, {"install_options": ["--index-url=${inputs.url}"]}])
def test_a_secret_that_would_be_an_argument_of_pip_is_refused(venv: Path, declared: dict[str, Any]) -> None:
    """Other users can see the arguments of programs."""
    inputs = {"url": {"default": "https://me:abcdefgh@example.org/x", "sensitive": True}}
    resources = {"Python_package[x]": {"name": "x", "virtualenv": str(venv), **declared}}
    with pytest.raises(ManifestError, match=f"'{next(iter(declared))}' is a secret, which other users could see"):
        Runtime(Registry.from_path()).validate({"inputs": inputs, "resources": resources})


class TestPythonPackage(ProviderCompliance):
    """A package in an environment."""

    type_name = "python_package"

    @pytest.fixture
    def present(self, venv: Path) -> Resource:
        options = ["--no-index", f"--find-links={venv.parent}"]
        return {"name": "RA.one", "virtualenv": str(venv), "ensure": "1.0", "install_options": options}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "ensure": "1.1"}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        return [{**present, "name": "ra-two", "ensure": "present"}]

    @pytest.fixture
    def world(self, venv: Path) -> Callable[[], Any]:
        return lambda: sorted(venv.rglob("*.dist-info"))

    @pytest.fixture
    def neighbours(self) -> str:
        return "an environment is read, and changed as its owner, for its own packages alone"
