"""Whose code is executed: nothing that others than root, the caller and the user behind sudo can change."""

from __future__ import annotations

import json
import marshal
import os
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Final

import pytest

from resource_api import Registry, Runtime
from resource_api.model.values.errors import UntrustedCode
from tests import command
from tests.namespaces import private_mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
ALICE: Final = 54110
BOB: Final = 54111
SHARED: Final = 54120  # a group of both
CAROL: Final = 54112  # one whose primary group is Alice's second one
FAMILY: Final = 54121

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and become another user")

MARK: Final = "import os\nfrom pathlib import Path\nPath(os.environ['MARKS'], '{name}').touch()\n"
TYPE: Final = """
from resource_api import Attribute, TypeDefinition
ATTRIBUTES = {"name": Attribute("String", "Its name.", kind="namevar")}
TYPE = TypeDefinition(name="note", docs="A note.", attributes=ATTRIBUTES)
"""
PROVIDER: Final = """
from lib import shared
class Provider:
    def get(self, context):
        return [{"name": "a"}, {"name": "b/a"}]
    def set(self, context, changes):
        pass
"""
COMPONENT: Final = """
from resource_api import ComponentDefinition
COMPONENT = ComponentDefinition(name="pair", docs="Two notes.", inputs={}, outputs={})
def build(m):
    m.resource("Note", "a", name="b/a")
"""
POLICY: Final = "def resource(resource):\n    return None\n"
MANIFEST: Final = """
def manifest(m):
    m.resource("Note", "a")
    m.resource("Pair", "b")
"""
#: Every file of code that a plan of the manifest executes.
FILES: Final = {
    "types/note.py": TYPE,
    "providers/note.py": PROVIDER,
    "lib/shared.py": "",
    "components/pair.py": COMPONENT,
    "policies/rule.py": POLICY,
    "site.py": MANIFEST,
}


class Site:
    """A directory of code with a manifest, and the command run on it."""

    def __init__(self, root: Path) -> None:
        """Write every file; each leaves a mark when it is executed."""
        self.root = root / "site"
        self.marks = root / "marks"
        self.marks.mkdir()
        self.marks.chmod(0o777)
        for name, code in FILES.items():
            self.write(name, MARK.format(name=Path(name).name + "." + Path(name).parent.name) + code)
        self.yaml = self.write("site.yaml", "resources: {'Note[a]': {}, 'Pair[b]': {}}\n")

    def write(self, name: str, text: str) -> Path:
        """Write a file with the mode 0644 in directories with the mode 0755."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.write_text(text, encoding="utf-8")
        return path

    def executed(self, name: str) -> bool:
        """Return whether a file of ``FILES`` has been executed."""
        return (self.marks / (Path(name).name + "." + Path(name).parent.name)).exists()

    def give(self, uid: int, gid: int | None = None) -> None:
        """Make a user the owner of everything."""
        for path in (self.root, *self.root.rglob("*")):
            os.chown(path, uid, uid if gid is None else gid, follow_symlinks=False)

    def plan(
        self, manifest: str = "site.py", *options: str, cwd: Path | None = None, user: int = 0, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``plan`` as a user, who may read everything; the marks of earlier runs are removed."""
        for mark in self.marks.iterdir():
            mark.unlink()
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MARKS": str(self.marks),
            "RESOURCE_API_STATE": "memory:",
            **more,
        }
        capable = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
        become = ["setpriv", *capable, f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        words = ["plan", manifest, *options]
        if not user and "PYTHONPATH" not in more:
            return command.run(words, cwd=cwd or self.root, env=environment, text=True)
        return subprocess.run(
            [*become, sys.executable, "-P", "-m", "resource_api", *words],
            cwd=cwd or self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a site of root's, written with the umask 022."""
    before = os.umask(0o022)
    yield Site(tmp_path)
    os.umask(before)


@pytest.fixture(scope="module")
def _accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Add users with private groups to a copy of the account files that only these tests see."""
    copy = tmp_path_factory.mktemp("accounts") / "etc"
    subprocess.run(["cp", "-a", "/etc", copy], check=True)
    with (copy / "passwd").open("a") as file:
        for name, uid, gid in (("alice", ALICE, ALICE), ("bob", BOB, BOB), ("carol", CAROL, FAMILY)):
            file.write(f"ra-{name}:x:{uid}:{gid}::/nonexistent:/bin/sh\n")
    with (copy / "group").open("a") as file:
        file.write(f"ra-alice:x:{ALICE}:\nra-bob:x:{BOB}:\nra-shared:x:{SHARED}:ra-alice,ra-bob\n")
        file.write(f"ra-family:x:{FAMILY}:ra-alice\nra-lost:x:54122:ra-alice,ra-nobody-knows\nra-empty:x:54123:\n")
    with private_mounts():
        subprocess.run(["mount", "--bind", copy, "/etc"], check=True)
        yield


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that a run was refused with the code 65 and a message that has these words."""
    assert result.returncode == 65, result
    assert "is not executed, because others could have changed it" in result.stderr, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


def test_code_of_root_is_executed(site: Site) -> None:
    """Every file of the site is code that a plan executes."""
    result = site.plan()
    assert result.returncode == 0, result.stderr
    assert all(map(site.executed, FILES))
    assert site.plan("site.yaml", "--isolate").returncode == 0


def _write_by_all(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def _write_by_group(path: Path) -> None:
    os.chown(path, 0, SHARED)
    path.chmod(path.stat().st_mode | 0o020)


def _of_bob(path: Path) -> None:
    os.chown(path, BOB, 0)


OPENED: Final = {"everybody": _write_by_all, "a group": _write_by_group, "its owner": _of_bob}


@pytest.mark.parametrize("open_to", OPENED.values(), ids=OPENED)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_others_can_write_is_not_executed(site: Site, name: str, open_to: Callable[[Path], None]) -> None:
    """The message names the path, its owner and its mode, and the remedy."""
    path = site.root / name
    open_to(path)
    owner = "belongs to user 54111" if open_to is _of_bob else "belongs to root"
    refused(site.plan(), f"'{path}' {owner} and has mode 0{path.stat().st_mode & 0o7777:o}", "--trust-path DIR")
    assert not site.executed(name)


@pytest.mark.parametrize("open_to", OPENED.values(), ids=OPENED)
@pytest.mark.parametrize("name", FILES)
def test_a_file_in_a_directory_of_others_is_not_executed(
    site: Site, name: str, open_to: Callable[[Path], None]
) -> None:
    """Who can write to its directory, or to one above it, can exchange the file."""
    directory = (site.root / name).parent
    open_to(directory)
    refused(site.plan(), f"'{directory}' belongs to ")
    assert not site.executed(name)
    os.chown(directory, 0, 0)
    directory.chmod(0o755)
    open_to(site.root)
    refused(site.plan(), f"'{site.root}' belongs to ")
    assert not site.executed(name)


@pytest.mark.parametrize("options", [(), ("--isolate",)], ids=["here", "in_a_worker"])
def test_a_provider_and_its_lib_are_checked_where_they_are_executed(site: Site, options: tuple[str, ...]) -> None:
    """A worker checks what it loads, also code that is imported late."""
    (site.root / "lib/shared.py").chmod(0o666)
    refused(site.plan("site.yaml", *options), f"'{site.root}/lib/shared.py' belongs to root and has mode 0666")
    assert not site.executed("lib/shared.py")
    (site.root / "providers").chmod(0o777)
    refused(site.plan("site.yaml", *options), f"'{site.root}/providers' belongs to root and has mode 0777")
    assert not site.executed("providers/note.py")


def test_a_neighbour_adds_nothing_to_a_sticky_directory(site: Site) -> None:
    """A manifest of root's in a directory like /tmp: what a neighbour lays beside it is not executed."""
    site.root.chmod(0o1777)
    shutil.rmtree(site.root / "policies")
    assert site.plan("site.yaml").returncode == 0
    evil = site.write("policies/rule.py", MARK.format(name="evil") + POLICY)
    for path in (evil.parent, evil):
        os.chown(path, BOB, BOB)
    refused(site.plan("site.yaml"), f"'{evil.parent}' belongs to user {BOB} and has mode 0755")
    assert not (site.marks / "evil").exists()
    # Anybody may lay a second link to a file of root's into it.
    shutil.rmtree(site.root / "policies")
    refused(site.plan(), f"'{site.root}' belongs to root and has mode 1777")


def test_the_advice_keeps_directories_that_others_use(site: Site) -> None:
    """A directory of another user, or a sticky one, is not to be given to root or closed: the code is to be moved."""
    os.chown(site.root, BOB, BOB)
    result = site.plan()
    refused(result, "move it to a directory that only root and you can write to")
    assert "chown" not in result.stderr
    os.chown(site.root, 0, 0)
    site.root.chmod(0o1777)
    result = site.plan()
    refused(result, "move it to a directory that only root and you can write to")
    assert "chmod" not in result.stderr


def test_links_count_with_their_target_and_the_way_to_it(site: Site, tmp_path: Path) -> None:
    """A link of a neighbour is refused, and one of root's that leads to their file."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    types = shutil.move(site.root / "types", elsewhere / "types")
    (site.root / "types").symlink_to("../elsewhere/types")
    assert site.plan("site.yaml").returncode == 0
    elsewhere.chmod(0o777)
    refused(site.plan("site.yaml"), f"'{elsewhere}' belongs to root and has mode 0777")
    elsewhere.chmod(0o755)
    os.chown(site.root / "types", BOB, BOB, follow_symlinks=False)
    refused(site.plan("site.yaml"), f"'{site.root}/types' belongs to user {BOB}")
    (site.root / "types").unlink()
    (site.root / "types").mkdir()
    (site.root / "types/note.py").symlink_to(Path(types) / "note.py")
    assert site.plan("site.yaml").returncode == 0
    (Path(types) / "note.py").chmod(0o666)
    refused(site.plan("site.yaml"), f"'{types}/note.py' belongs to root and has mode 0666")


@pytest.mark.parametrize("manifest", [False, True], ids=["--module-path", "manifest"])
def test_the_way_by_which_a_directory_was_named_counts(site: Site, tmp_path: Path, manifest: bool) -> None:  # noqa: FBT001
    """A link of a neighbour could lead to another directory of root's the next time."""
    link = tmp_path / ("site.yaml" if manifest else "way")
    link.symlink_to(site.yaml if manifest else site.root)
    path = tmp_path / "other.yaml"
    path.write_text(site.yaml.read_text())
    arguments = [str(link)] if manifest else [str(path), "--module-path", str(link)]
    assert site.plan(*arguments, cwd=tmp_path).returncode == 0
    os.chown(link, BOB, BOB, follow_symlinks=False)
    refused(site.plan(*arguments, cwd=tmp_path), f"'{link}' belongs to user {BOB}")


def test_a_neighbour_who_swaps_a_link_is_never_executed(site: Site, tmp_path: Path) -> None:
    """What is checked is what is executed, however often a directory of a neighbour leads elsewhere."""
    bobs, evil = tmp_path / "bobs", tmp_path / "evil"
    bobs.mkdir()
    shutil.copytree(site.root, evil)
    (evil / "types/note.py").write_text(MARK.format(name="evil") + TYPE)
    file = tmp_path / "other.yaml"
    file.write_text("resources: {'Note[a]': {}}")
    swap = dedent("""
        import os, sys
        bobs, uid, *targets = sys.argv[1:]
        while True:
            for target in targets:
                os.symlink(target, bobs + "/new")
                os.chown(bobs + "/new", int(uid), int(uid), follow_symlinks=False)
                os.rename(bobs + "/new", bobs + "/way")
        """)
    (bobs / "way").symlink_to(site.root)
    for path in (bobs, evil, *evil.rglob("*")):
        os.chown(path, BOB, BOB)
    neighbour = subprocess.Popen([sys.executable, "-c", swap, str(bobs), str(BOB), str(site.root), str(evil)])
    try:
        for _ in range(15):
            result = site.plan(str(file), "--module-path", str(bobs / "way"), cwd=tmp_path)
            assert result.returncode == 65, result
    finally:
        neighbour.kill()
        neighbour.wait()
    assert not (site.marks / "evil").exists()


def test_bytecode_that_others_can_write_is_not_executed(site: Site) -> None:
    """It is compiled anew from the file, which is trusted."""
    path = site.root / "types/note.py"
    cached = Path(cache_from_source(str(path)))
    cached.parent.mkdir()
    status = path.stat()
    code = compile(MARK.format(name="evil") + TYPE, str(path), "exec")
    header = b"\0\0\0\0" + int(status.st_mtime).to_bytes(4, "little") + status.st_size.to_bytes(4, "little")
    cached.write_bytes(_magic() + header + marshal.dumps(code))
    assert site.plan("site.yaml").returncode == 0
    assert (site.marks / "evil").exists(), "the bytecode is not what Python would have executed"
    for item in (cached, cached.parent):
        os.chown(item, BOB, BOB)
        assert site.plan("site.yaml").returncode == 0
        assert not (site.marks / "evil").exists()
        os.chown(item, 0, 0)


def _magic() -> bytes:
    from importlib.util import MAGIC_NUMBER

    return MAGIC_NUMBER


def test_a_trusted_directory_is_not_checked(site: Site, tmp_path: Path) -> None:
    """Neither what lies beneath it, nor what leads there; what lies beside it still is."""
    site.give(BOB)
    site.root.chmod(0o777)
    refused(site.plan())
    for options in ((), ("--isolate",)):
        result = site.plan("site.py", "--trust-path", str(site.root), *options)
        assert result.returncode == 0, result.stderr
    assert site.plan(RESOURCE_API_TRUST_PATH=f"/usr:{site.root}:").returncode == 0
    assert site.plan(RESOURCE_API_TRUST_PATH="/").returncode == 0
    refused(site.plan("site.py", "--trust-path", str(site.root / "types")), f"'{site.root}' belongs to user {BOB}")
    (tmp_path / "sit").mkdir()
    refused(site.plan("site.py", "--trust-path", str(tmp_path / "sit")))


def test_a_manifest_of_data_that_others_can_write_is_a_warning(site: Site) -> None:
    """It is shown in every run, also in one that finds nothing to do."""
    site.yaml.chmod(0o666)
    state = f"sqlite:{site.marks.parent}/state/state.db"
    for _ in range(4):
        result = site.plan("site.yaml", RESOURCE_API_STATE=state)
        assert result.returncode == 0, result.stderr
        assert f"others can change this manifest: '{site.yaml}' belongs to root and has mode 0666" in result.stderr
    included = site.write("part.json", "{}")
    included.chmod(0o666)
    site.yaml.chmod(0o644)
    site.yaml.write_text("include: [part.json]\nresources: {}")
    assert f"'{included}' belongs to root and has mode 0666" in site.plan("site.yaml").stderr
    assert "others can change" not in site.plan("site.yaml", "--trust-path", str(site.root)).stderr


def test_whatever_a_manifest_is_made_from_is_judged_alike(site: Site) -> None:
    """Inputs of the stack, of files and of options, assets and archives: a warning in every run if others can write."""
    text = f"File[{site.root}/made]"
    resources = {
        text: {"content": {"asset": {"file": "asset"}}},
        f"Archive[{site.root}/unpacked]": {"source": {"archive": {"directory": "tree"}}},
    }
    declared = {"inputs": {name: {"default": "x"} for name in "abc"}, "resources": resources}
    site.yaml.write_text(json.dumps(declared))
    read = {
        "inputs": [
            site.write("stacks/default.yaml", "a: y"),
            site.write("more.yaml", "b: y"),
            site.write("c.txt", "y"),
        ],
        "asset": [site.write("asset", "text")],
        "archive": [site.write("tree/inner/file", "text").parent.parent],
    }
    changed = {"inputs": read["inputs"], "asset": read["asset"], "archive": [site.root / "tree/inner/file"]}
    options = ("--inputs", "more.yaml", "-i", "c=@c.txt")
    state = f"sqlite:{site.marks.parent}/state/state.db"
    assert "others can change" not in site.plan("site.yaml", *options).stderr
    for kind, paths in changed.items():
        for path in paths:
            path.chmod(0o666)
            for _ in range(2):
                output = site.plan("site.yaml", *options, RESOURCE_API_STATE=state).stderr
                called = "these inputs" if kind == "inputs" else f"this {kind}"
                assert f"others can change {called}: '{path}' belongs to root and has mode 0666" in output
            assert "others can change" not in site.plan("site.yaml", *options, "--trust-path", str(site.root)).stderr
            path.chmod(0o644)


@pytest.mark.parametrize("link", ["asset", "tree/file", "tree"])
def test_no_asset_is_read_behind_a_link_that_others_can_change(site: Site, link: str) -> None:
    """Root would publish a file that only root can read; links of trusted users in their directories are followed."""
    secret = site.write("private/file", "of root alone")
    site.write("tree/file", "text")
    site.write("asset", "text")
    origin = {"archive": {"directory": "tree"}} if link == "tree" else {"asset": {"file": link}}
    kind, attribute = ("Archive", "source") if link == "tree" else ("File", "content")
    made = site.root / "made"
    site.yaml.write_text(json.dumps({"resources": {f"{kind}[{made}]": {attribute: origin}}}))
    path = site.root / link
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(secret.parent if link == "tree" else secret)
    assert site.plan("site.yaml").returncode == 0
    os.lchown(path, BOB, BOB)
    refused_link = site.plan("site.yaml")
    assert refused_link.returncode == 65
    assert "is not read, because others can change a link on its path" in refused_link.stderr
    assert f"'{path}' belongs to user {BOB}" in refused_link.stderr
    assert site.plan("site.yaml", "--trust-path", str(site.root)).returncode == 0
    os.lchown(path, 0, 0)
    path.parent.chmod(0o777)
    assert f"'{path.parent}' belongs to root and has mode 0777" in site.plan("site.yaml").stderr


def test_a_program_trusts_directories_for_its_registry(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library refuses what the command refuses."""
    monkeypatch.setenv("MARKS", str(site.marks))
    (site.root / "types").chmod(0o777)
    with pytest.raises(UntrustedCode, match="types' belongs to root and has mode 0777"):
        Registry.from_path(site.root).type("note")
    assert not site.executed("types/note.py")
    registry = Registry.from_path(site.root, trust=[site.root])
    assert Runtime(registry, isolate=True).plan({"resources": {"Note[a]": {}}}).steps[0].is_
    site.yaml.chmod(0o666)
    events: list[object] = []
    Runtime(Registry.from_path(site.root, trust=[site.root / "types"]), on_event=events.append).plan(site.yaml)
    assert "others can change this manifest" in str(events)


@pytest.mark.usefixtures("_accounts")
class TestUsers:
    """Who counts as the caller, and whose groups do."""

    def test_sudo_from_a_checkout(self, site: Site) -> None:
        """The user who called sudo could as well have changed the command line."""
        site.give(ALICE)
        refused(site.plan(), "belongs to ra-alice and has mode 0755", "is neither root nor you")
        for options in ((), ("--isolate",)):
            result = site.plan("site.py", *options, SUDO_UID=str(ALICE))
            assert result.returncode == 0, result.stderr
        refused(site.plan(SUDO_UID=str(BOB)))
        refused(site.plan(SUDO_UID="ra-alice"))

    def test_a_user_without_sudo(self, site: Site) -> None:
        """They execute what is theirs or root's, and nothing of a neighbour's."""
        assert site.plan(user=ALICE).returncode == 0
        site.give(ALICE)
        result = site.plan(user=ALICE)
        assert result.returncode == 0, result.stderr
        refused(site.plan(user=BOB), "belongs to ra-alice")

    def test_the_umask_002_with_private_groups(self, site: Site) -> None:
        """A group of which its owner is the only member counts as the owner, for sudo and for the user."""
        site.give(ALICE)
        for path in (site.root, *site.root.rglob("*")):
            path.chmod(path.stat().st_mode | 0o020)
        for result in (site.plan(user=ALICE), site.plan(SUDO_UID=str(ALICE))):
            assert result.returncode == 0, result.stderr
            assert "others can change" not in result.stderr
        os.chown(site.root / "types", ALICE, SHARED)
        refused(site.plan(user=ALICE), "'ra-shared' can write to it; run: chmod g-w ")

    @pytest.mark.parametrize("gid", [FAMILY, 54122, 54123, 54124], ids=["second", "unknown member", "empty", "unknown"])
    def test_a_group_with_anybody_else_is_others(self, site: Site, gid: int) -> None:
        """Also one that is the primary group of another user, or of which the members are not known."""
        site.give(ALICE, gid)
        (site.root / "types/note.py").chmod(0o664)
        refused(site.plan(user=ALICE), f"'{site.root}/types/note.py' belongs to ra-alice and has mode 0664")

    def test_an_acl_behind_the_bits_of_the_group(self, site: Site) -> None:
        """With an ACL these bits are only the limit of what others may do."""
        site.give(ALICE)
        path = site.root / "types"
        entries = [
            (0x01, 7, 0xFFFFFFFF),
            (0x02, 7, BOB),
            (0x04, 5, 0xFFFFFFFF),
            (0x10, 7, 0xFFFFFFFF),
            (0x20, 5, 0xFFFFFFFF),
        ]
        acl = (2).to_bytes(4, "little") + b"".join(
            tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who.to_bytes(4, "little")
            for tag, bits, who in entries
        )
        try:
            os.setxattr(path, "system.posix_acl_access", acl)
        except OSError:
            pytest.skip("this filesystem has no ACLs")
        refused(site.plan(user=ALICE), f"'{path}' belongs to ra-alice and has mode 0775 and an ACL", "setfacl -b")

    def test_a_virtual_environment_of_the_user(self, site: Site) -> None:
        """The program itself is trusted, and so is what is installed beside it; sudo need not be told."""
        packages = site.root / "venv/lib/python3/site-packages"
        shutil.copytree(ROOT / "resource_api", packages / "resource_api", ignore=shutil.ignore_patterns("__pycache__"))
        for kind in ("types", "providers", "lib"):
            shutil.copytree(ROOT / kind, packages / "resource_api" / kind, ignore=shutil.ignore_patterns("__pycache__"))
        for kind in ("types", "providers"):
            (packages / "ra_plugin" / kind).mkdir(parents=True)
            shutil.move(site.root / kind / "note.py", packages / "ra_plugin" / kind / "note.py")
        shutil.move(site.root / "lib", packages / "ra_plugin/lib")
        (packages / "ra_plugin/__init__.py").touch()
        points = packages / "ra_plugin-1.dist-info/entry_points.txt"
        points.parent.mkdir()
        points.write_text("[resource_api.modules]\nnotes = ra_plugin\n")
        (points.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: ra-plugin\nVersion: 1\n")
        site.yaml.write_text("resources: {'Note[a]': {}, 'Host[localhost]': {ensure: absent, noop: true}}")
        (site.root / "policies/rule.py").unlink()
        site.give(ALICE)
        for path in (site.root, *site.root.rglob("*")):
            path.chmod(path.stat().st_mode | 0o020)
        for result in (
            site.plan("site.yaml", PYTHONPATH=str(packages), SUDO_UID=str(ALICE)),
            site.plan("site.yaml", PYTHONPATH=str(packages), user=ALICE),
            site.plan("site.yaml", "--isolate", PYTHONPATH=str(packages)),
        ):
            assert result.returncode == 0, result.stderr
