"""Law F10: what a host is sent is complete, small, the same each time, and unpacked where nobody else can change it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.fleet import archives
from resource_api.fleet.archives import SentFile, boot_arguments, make_archive
from resource_api.fleet.channel import HostChannel
from resource_api.fleet.job import HostJob, with_id
from resource_api.model.values.errors import UsageError
from tests.fleet import interpreters

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.process

#: Libraries that a host need not have, each imported where it is used: what replaces it, or is missing without it.
OPTIONAL: Final = {
    "cryptography": "encryption, and the type x509_key: extras of providers",
    "jinja2": "the function template",
    "jsonschema": "the explanation of a refused document, which the sender has validated",
    "psycopg": "the types of PostgreSQL",
    "pymysql": "the types of MariaDB and MySQL",
    "pyrage": "keys of age",
    "ruamel": "the type yaml_setting",
    "tomlkit": "the type toml_setting",
    "yaml": "manifests are parsed before they are sent",
}
#: Modules of the standard library of one version each, of which one is imported.
ONE_OF: Final = frozenset({"_sha2", "_sha256"})
#: What is imported from parts that are left out, and who does that: never on a host.
NEVER: Final = frozenset(
    {
        ("resource_api/runtime/manifest_compiler.py", "resource_api.terraform.family"),
        ("resource_api/state/open_store.py", "resource_api.state.postgresql.store"),
    }
)
LIMIT: Final = 800 * 1024
DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> archives.SentArchive:
    """Return the archive of this package."""
    return archives.package_archive(str(tmp_path_factory.getbasetemp().parent / "payload"))


#: Executed before the first program, lets it take this interpreter for an old one.
_AS_3_9: Final = "import sys; sys.version_info, sys.version = (3, 9), '3.9.2 (default)'; "
#: For tests of what a host does: with every Python of this machine that is new enough.
everywhere: Final = pytest.mark.parametrize("python", interpreters.new_enough(), ids=interpreters.name)


@pytest.fixture
def python() -> str:
    """Return the interpreter of the tests, for those that are not about interpreters."""
    return sys.executable


@pytest.fixture
def unpacked(sent: archives.SentArchive, tmp_path: Path, python: str) -> Path:
    """Return the directory of the archive in a cache of its own."""
    boot(python, tmp_path / "cache", [sent])
    return tmp_path / "cache" / sent.digest


def start(python: str, arguments: list[str], sent: bytes = b"", before: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run the first program with what it is sent; ``before`` is executed first."""
    words = [python, *arguments[:3], before + arguments[3], *arguments[4:]]
    return subprocess.run(words, input=sent, capture_output=True, check=False)


def boot(
    python: str, cache_directory: Path, archives: list[archives.SentArchive], raw: list[bytes] | None = None
) -> tuple[int, str]:
    """Run the first program with these archives, up to the job; return its exit code and standard error."""
    sent = b"".join(b"%d\n%b" % (len(data), data) for data in raw or [archive.raw for archive in archives])
    arguments = boot_arguments((item.digest for item in archives), str(cache_directory))
    result = start(python, arguments, sent)
    return result.returncode, result.stderr.decode()


def modules_archive(top: Path) -> Iterator[str]:
    """Yield the names of the modules in an unpacked archive that are imported by name."""
    for path in sorted(top.rglob("*.py")):
        name = path.relative_to(top).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        if not name.startswith(("resource_api.types", "resource_api.providers", "resource_api.lib")):
            yield name


def test_it_is_small_and_always_the_same(sent: archives.SentArchive, tmp_path: Path) -> None:
    """At most 800 KiB; made again it has the same bytes; it is kept, but not where others can open it."""
    assert len(sent.raw) <= LIMIT
    assert archives.package_archive(str(tmp_path / "a")) == sent
    (path,) = (tmp_path / "a").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    began = time.process_time()
    assert archives.package_archive(str(tmp_path / "a")) == sent
    assert time.process_time() - began < 0.2
    path.write_bytes(b"of others")
    (tmp_path / "a").chmod(0o755)
    assert archives.package_archive(str(tmp_path / "a")) == sent


def test_code_of_the_package_is_sent_without_docstrings_and_with_its_line_numbers(unpacked: Path) -> None:
    """Docstrings are a fifth of the archive, and a traceback of a host must lead to the line in the source."""
    for path in (unpacked / "resource_api").rglob("*.py"):
        name = path.relative_to(unpacked / "resource_api")
        source = next(top / name for top in (ROOT / "resource_api", ROOT) if (top / name).exists())
        tree, original = ast.parse(path.read_bytes()), ast.parse(source.read_bytes())
        places = [[(type(node), getattr(node, "lineno", 0)) for node in ast.walk(each)] for each in (tree, original)]
        assert places[0] == places[1], name
        documented = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
        assert not any(map(ast.get_docstring, documented)), name


@everywhere
def test_every_module_can_be_imported_in_a_bare_interpreter(unpacked: Path, python: str) -> None:
    """Without site-packages, and without a warning; what is imported as an alternative is none of them."""
    without = {"resource_api.manifest.yaml_reader"}
    code = f"""
import importlib, sys
sys.path.insert(0, {str(unpacked)!r})
for name in {sorted(set(modules_archive(unpacked)) - without)!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {sorted(OPTIONAL)!r}:
            raise
assert all("site-packages" not in (getattr(each, "__file__", None) or "") for each in sys.modules.values())
"""
    bare = [python, "-W", "error", "-I", "-S", "-c", code]
    process = subprocess.run(bare, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_every_import_in_it_can_be_satisfied(unpacked: Path) -> None:
    """Also one within a function: by the standard library or by the archive, but for what is known to be optional."""
    missing, declared = [], {*sys.stdlib_module_names, *OPTIONAL, *ONE_OF, "lib"}
    for path in sorted(unpacked.rglob("*.py")):
        relative = path.relative_to(unpacked).as_posix()
        if relative.startswith(("packaging/", "structlog/", "sh")):
            continue
        for name in imports(path):
            top = name.partition(".")[0]
            if top in declared or (relative, name) in NEVER:
                continue
            if not is_in(unpacked, name):
                missing.append((relative, name))
    assert missing == []


def imports(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports at run time, anywhere in it."""
    for node in unguarded(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name for name in names if Path(ROOT, f"{name.replace('.', '/')}.py").exists())


def unguarded(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes beneath a node, without those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from unguarded(child)


@cache
def is_in(top: Path, name: str) -> bool:
    """Return whether a module, or the package of a name in it, is in the archive."""
    path = top / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file() or name.startswith("resource_api.__")


def test_every_schema_that_it_loads_is_in_it(unpacked: Path) -> None:
    """A host without one would take what the schema describes for damaged."""
    package = unpacked / "resource_api"
    call = re.compile(r"document_schema\.(?:load|check|find_violations)\(\s*\"([\w-]+)\"")
    loaded = {name for path in package.rglob("*.py") for name in call.findall(path.read_text(encoding="utf-8"))}
    assert loaded >= {"agent-status", "run"}
    assert loaded <= {path.stem for path in (package / "schemas").iterdir()}


def test_the_first_program_is_short_and_old() -> None:
    """Less than 1.5 KiB, and in the syntax of Python 3.6, so that an older interpreter says what is needed."""
    assert len(archives.boot_text()) < 1536
    source = (Path(archives.__file__).parent / "boot.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("python", "before"),
    [(sys.executable, _AS_3_9), *((python, "") for python in interpreters.too_old())],
    ids=["as if 3.9", *map(interpreters.name, interpreters.too_old())],
)
def test_an_older_interpreter_is_told_what_is_needed(
    sent: archives.SentArchive, tmp_path: Path, python: str, before: str
) -> None:
    """One sentence, and nothing is written; by this interpreter as if it were one, and by real ones that are here."""
    result = start(python, archives.boot_arguments([sent.digest], str(tmp_path / "cache")), before=before)
    version = "3.9" if before else interpreters.name(python)
    text = rf"needs Python 3\.11 or later; this is {re.escape(version)}\.\d+\n"
    assert (result.returncode, result.stdout) == (1, b"")
    assert re.fullmatch(text, result.stderr.decode()), result.stderr
    assert not (tmp_path / "cache").exists()


def test_the_oldest_and_the_newest_python_that_are_promised_are_here() -> None:
    """The tests of this file are run with at least two versions; ``make test`` unpacks the newest one."""
    oldest, *_, newest = (version for version in interpreters.interpreters() if version >= interpreters.OLDEST)
    assert oldest == interpreters.OLDEST
    assert newest >= interpreters.NEWEST, "unpack it: .ci/newer-python trixie .venv/python-trixie"


@everywhere
@pytest.mark.parametrize("missing", ["_sqlite3", "fcntl", "json", "lzma"])
def test_half_of_a_standard_library_is_not_enough(
    sent: archives.SentArchive, tmp_path: Path, python: str, missing: str
) -> None:
    """As Debian's python3-minimal has it: found before the job is asked for, and said in one sentence."""
    arguments = archives.boot_arguments([sent.digest], str(tmp_path / "cache"))
    without = f"import sys; sys.modules['{missing}'] = None; "
    result = start(python, arguments, b"%d\n%b" % (len(sent.raw), sent.raw), before=without)
    assert (result.returncode, b'"have"' in result.stdout) == (1, False)
    channel = HostChannel("web1", with_id(HostJob("plan", "1", payload=sent.digest)), lambda _: b"")
    (end,) = channel.close(result.stderr.decode().splitlines()[-1])
    message = r"needs all of Python's standard library \(Debian: the package python3\): [^\n]+"
    assert re.fullmatch(message, end.document["error"])
    assert end.document["status"] == "unreachable"


@everywhere
def test_an_archive_is_unpacked_once_for_one_user_alone(
    sent: archives.SentArchive, tmp_path: Path, python: str
) -> None:
    """Whatever the umask; the second time nothing is asked for; programs in it can be executed."""
    program = make_archive({"0/providers/x": SentFile(b"#!/bin/sh\n", executable=True), "0/types/x.py": SentFile(b"")})
    before = os.umask(0)
    try:
        boot(python, tmp_path / "cache", [sent, program])
    finally:
        os.umask(before)
    cache_directory = tmp_path / "cache"
    unpacked = [path for path in cache_directory.rglob("*") if "__pycache__" not in path.parts]
    assert all(path.stat().st_mode & 0o077 == 0 for path in [cache_directory, *unpacked])
    assert (cache_directory / program.digest / "0/providers/x").stat().st_mode & 0o777 == 0o700
    assert {path.name for path in cache_directory.iterdir()} == {sent.digest, program.digest}
    arguments = archives.boot_arguments([sent.digest, program.digest], str(cache_directory))
    result = start(python, arguments)
    assert result.stdout == b'\nRApi {"kind":"have","digests":""}\n'


def test_what_a_killed_process_of_the_same_number_has_left_is_no_obstacle(tmp_path: Path, python: str) -> None:
    """As in containers, whose processes have the same numbers again and again."""
    archive, cache_directory = make_archive({"0/types/x.py": SentFile(b"new")}), tmp_path / "cache"
    arguments = archives.boot_arguments([archive.digest], str(cache_directory))
    cache_directory.mkdir(0o700)
    rest = f"{cache_directory}/{archive.digest}.%d/0/types"
    before = f"import os; top = {rest!r} % os.getpid(); os.makedirs(top); open(top + '/x.py', 'w').close(); "
    start(python, arguments, b"%d\n%b" % (len(archive.raw), archive.raw), before=before)
    assert [path.name for path in cache_directory.iterdir()] == [archive.digest]
    assert (cache_directory / archive.digest / "0/types/x.py").read_bytes() == b"new"


@everywhere
def test_what_has_another_digest_is_not_unpacked(sent: archives.SentArchive, tmp_path: Path, python: str) -> None:
    """Also where it is cut; nothing stays."""
    for raw in (sent.raw[:-1] + b"x", sent.raw[:-1]):
        assert boot(python, tmp_path / "cache", [sent], [raw]) == (1, "what has arrived has another digest\n")
        assert list((tmp_path / "cache").iterdir()) == []


@everywhere
def test_an_input_that_ends_before_the_archive_is_named(
    sent: archives.SentArchive, tmp_path: Path, python: str
) -> None:
    """A login file may redirect it."""
    arguments = archives.boot_arguments([sent.digest], str(tmp_path / "cache"))
    result = start(python, arguments)
    assert (result.returncode, result.stderr) == (1, b"stdin has ended\n")


@everywhere
def test_a_cache_that_others_can_open_or_a_link_is_refused(
    sent: archives.SentArchive, tmp_path: Path, python: str
) -> None:
    """Nothing in it is read."""
    cache_directory = tmp_path / "cache"
    text = f"{cache_directory}: must be a directory that only its owner can open, and no link\n"
    cache_directory.mkdir(mode=0o755)
    assert boot(python, cache_directory, [sent]) == (1, text)
    cache_directory.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cache_directory.symlink_to(tmp_path / "elsewhere")
    assert boot(python, cache_directory, [sent]) == (1, text)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_a_cache_of_another_user_is_refused(sent: archives.SentArchive, tmp_path: Path, python: str) -> None:
    """Root reads nothing that a user has put there."""
    cache_directory = tmp_path / "cache"
    cache_directory.mkdir(mode=0o700)
    os.chown(cache_directory, 65534, 65534)
    code, reason = boot(python, cache_directory, [sent])
    assert (code, reason.endswith(": must be a directory that only its owner can open, and no link\n")) == (1, True)


@pytest.mark.parametrize("damage", ["empty", "missing"])
def test_what_a_power_cut_has_damaged_is_unpacked_again(
    sent: archives.SentArchive, unpacked: Path, tmp_path: Path, python: str, damage: str
) -> None:
    """A file that is empty or missing."""
    module = unpacked / "resource_api" / "runtime" / "runtime.py"
    whole = module.read_bytes()
    if damage == "empty":
        module.write_bytes(b"")
    else:
        module.unlink()
    boot(python, tmp_path / "cache", [sent])
    assert module.read_bytes() == whole


def test_bytecode_that_a_kill_has_left_half_written_is_no_damage(
    sent: archives.SentArchive, unpacked: Path, python: str
) -> None:
    """Python writes it under another name first, which is there for ever after a kill."""
    directory = unpacked / "resource_api" / "__pycache__"
    directory.mkdir(exist_ok=True)
    (directory / "__init__.cpython-311.pyc.140234").write_bytes(b"half")
    arguments = archives.boot_arguments([sent.digest], str(unpacked.parent))
    result = start(python, arguments)
    assert result.stdout == b'\nRApi {"kind":"have","digests":""}\n'


def test_first_runs_side_by_side_do_not_disturb_each_other(
    sent: archives.SentArchive, tmp_path: Path, python: str
) -> None:
    """Each unpacks for itself; the first one's stays, and the others use it."""
    arguments = archives.boot_arguments([sent.digest], str(tmp_path / "cache"))
    data = b"%d\n%b" % (len(sent.raw), sent.raw)
    runs = [
        subprocess.Popen([python, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for run in runs:  # none has it before all have asked for it
        assert run.stdout is not None
        assert run.stdout.readline() == b"\n"
        assert b'"need"' in run.stdout.readline()
    for item in runs:
        out, error = item.communicate(data)
        assert (out.splitlines()[-1], error) == (b'RApi {"kind":"have","digests":""}', b"")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [sent.digest]


@everywhere
def test_a_link_is_not_followed(sent: archives.SentArchive, unpacked: Path, tmp_path: Path, python: str) -> None:
    """One in place of what was unpacked is neither executed nor written to."""
    unpacked.rename(tmp_path / "elsewhere")
    unpacked.symlink_to(tmp_path / "elsewhere")
    code, reason = boot(python, tmp_path / "cache", [sent])
    assert (code, reason) == (1, f"{tmp_path}/cache: Not a directory\n")
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {unpacked.name}


@everywhere
def test_a_full_disk_is_said_and_leaves_nothing(sent: archives.SentArchive, tmp_path: Path, python: str) -> None:
    """The first program ends with the system's reason, and what it was writing; the next one begins anew."""
    arguments = archives.boot_arguments([sent.digest], str(tmp_path / "cache"))
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
    result = start(python, arguments, b"%d\n%b" % (len(sent.raw), sent.raw), before=limited)
    assert (result.returncode, result.stderr) == (1, f"{tmp_path}/cache: File too large\n".encode())
    assert list((tmp_path / "cache").iterdir()) == []


def test_modules_are_what_a_module_path_has(tmp_path: Path) -> None:
    """Each directory in its place; hidden files, bytecode and other files are left out; none: there is no archive."""

    def read(path: str) -> tuple[bytes, os.stat_result]:
        return Path(path).read_bytes(), Path(path).stat()

    assert archives.modules_archive([str(tmp_path)], read) is None
    for name in ("types/a.py", "lib/b/c.py", "types/__pycache__/a.pyc", "types/.hidden", "notes.txt", "providers.yaml"):
        (tmp_path / "first" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "first" / name).write_text(name)
    archive = archives.modules_archive([str(tmp_path), str(tmp_path / "first")], read)
    expected = {f"1/{name}": SentFile(name.encode()) for name in ("types/a.py", "lib/b/c.py", "providers.yaml")}
    assert archive == make_archive(expected)
    assert archive is not None
    assert archive.digest == sha256(archive.raw).hexdigest()


def test_modules_have_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is refused with the directory."""
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "a.py").write_text("12345")
    monkeypatch.setattr(archives, "LARGEST", 4)
    with pytest.raises(UsageError, match=r"the modules for other hosts are at most 10000 files and 0 MiB$"):
        archives.modules_archive([str(tmp_path)], lambda path: (Path(path).read_bytes(), Path(path).stat()))


@everywhere
def test_the_first_answer_is_a_frame(sent: archives.SentArchive, tmp_path: Path, python: str) -> None:
    """It names what is needed by digest, on a line of its own after what a login file printed."""
    arguments = archives.boot_arguments([sent.digest, "0" * 64], str(tmp_path / "cache"))
    result = start(python, arguments)
    before, first = result.stdout.splitlines()[:2]
    assert before in {"", b""}
    assert json.loads(first.removeprefix(b"RApi ")) == {"kind": "need", "digests": f"{sent.digest} {'0' * 64}"}


def test_a_library_without_files_cannot_be_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is named, before any host is asked."""
    monkeypatch.setattr(archives, "LIBRARIES", ("sys",))
    with pytest.raises(UsageError, match=r"^the library sys, which other hosts need, is not installed as files$"):
        archives.package_archive(str(tmp_path))
