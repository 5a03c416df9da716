"""Packages of Terraform providers on this machine: addresses, mirrors, versions, executables, and the lock file.

Mirrors are the directories that ``init`` fills, and those of the command-line tools of Terraform and OpenTofu, by their
configuration file or else by default. A mirror has unpacked packages, ``HOST/NAMESPACE/NAME/VERSION/linux_amd64/``, and
packed ones, ``HOST/NAMESPACE/NAME/terraform-provider-NAME_VERSION_linux_amd64.zip``. Nothing is downloaded.

The lock file ``providers.lock`` has the form of ``.terraform.lock.hcl``; its hashes ``h1:`` are of the files of a
package, as by Go's ``dirhash.Hash1``. Both kinds of files are read as the literals and blocks of HCL.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import shutil
from contextlib import suppress
from fnmatch import fnmatchcase
from string import Template
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from resource_api.model.values.archive_rules import Limits
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.text import shell_word
from resource_api.system.filesystem import archive_members, private_files
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, make_directory, opened
from resource_api.system.filesystem.unpack import unpack_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.values.archive_rules import Member

#: The registries whose packages are the same, under addresses without a host.
DEFAULT_HOSTS: Final = ("registry.opentofu.org", "registry.terraform.io")
_NAME: Final = re.compile(r"[0-9a-z](?:[0-9a-z_-]*[0-9a-z])?\Z")
_HOST: Final = re.compile(r"[0-9a-z-]+(?:\.[0-9a-z-]+)+(?::\d+)?\Z")
#: Machines of the kernel → architectures of Go.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv6l": "arm", "armv7l": "arm", "i686": "386"}
#: Terraform's operators of versions, and their forms here.
_TERRAFORM_OPERATORS: Final = re.compile(r"~>\s*|(?<![=!<>~])=(?!=)\s*")
#: The largest package: the ones of the big clouds have 800 MB.
_LIMITS: Final = Limits(size=4 << 30, members=1000)
#: Where ``init`` puts packages, and where a project keeps its own, beside the manifest.
_BESIDE: Final = (".terraform/providers", "terraform.d/plugins")
_SYSTEM: Final = ("/usr/local/share", "/usr/share")
_TOOLS: Final = ("opentofu", "terraform")
#: The lock file beside the manifest.
LOCK_FILE: Final = "providers.lock"
_LOCK_HEADER: Final = "# Written by 'resource-api providers lock'. Keep it with the manifest.\n"
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+|(?:\#|//)[^\n]*|/\*.*?\*/)
      | (?P<newline>\n)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<word>[A-Za-z_][\w-]*)
      | (?P<sign>[{}\[\]=:,])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"true": True, "false": False, "null": None}


class ProviderAddress(NamedTuple):
    """The address of a provider; one without a host is that of both default registries."""

    namespace: str
    name: str
    host: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address in a text. Raise ``ValueError`` for a text that is none.

        The hosts of both public registries are left out: their addresses mean the same providers.

        >>> str(ProviderAddress.parse("registry.terraform.io/hashicorp/null"))
        'hashicorp/null'
        """
        # the last three of ["", "hashicorp", "null"]: without a host it is ""
        host, namespace, name = ["", *text.split("/")][-3:] if text.count("/") in {1, 2} else ("", "", "")
        if not (_NAME.match(namespace) and _NAME.match(name) and (_HOST.match(host) or not host)):
            msg = f"'{text}' is no address of a provider; write [HOST/]NAMESPACE/NAME, such as hashicorp/vsphere"
            raise ValueError(msg)
        return cls(namespace, name, "" if host in DEFAULT_HOSTS else host)

    def __str__(self) -> str:
        """Return the address as it is written."""
        return f"{self.host}{'/' if self.host else ''}{self.namespace}/{self.name}"

    @property
    def directories(self) -> Sequence[str]:
        """The directories of the provider below a mirror."""
        return [f"{host}/{self.namespace}/{self.name}" for host in ([self.host] if self.host else DEFAULT_HOSTS)]


class Mirror(NamedTuple):
    """A directory of packages; ``include`` and ``exclude`` are patterns of addresses, an empty ``include`` is all."""

    path: str
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def serves(self, address: ProviderAddress) -> bool:
        """Return whether packages of a provider may be in it."""
        included = not self.include or any(_matches(pattern, address) for pattern in self.include)
        return included and not any(_matches(pattern, address) for pattern in self.exclude)


def _matches(pattern: str, address: ProviderAddress) -> bool:
    """Return whether a mirror's pattern ``HOST/NAMESPACE/NAME`` or ``NAMESPACE/NAME`` fits an address.

    By such patterns a user lists the providers that a mirror has or lacks.
    """
    host, namespace, name = ["", *pattern.split("/")][-3:]  # the host is "" in a pattern of two parts
    # an address without a host is that of each default registry
    hosts = [address.host] if address.host else ["", *DEFAULT_HOSTS]
    is_host = any(fnmatchcase(candidate, host) for candidate in hosts)
    return is_host and fnmatchcase(address.namespace, namespace) and fnmatchcase(address.name, name)


def mirrors(beside: str, environment: Mapping[str, str]) -> Iterator[Mirror]:
    """Yield the directories to search for providers in order of precedence, Terraform's own among them.

    ``beside``: the directory of the manifest. A ``provider_installation`` in Terraform's configuration replaces the
    default directories, as for its own commands. Raise ``ValueError`` for an invalid configuration file.
    """
    yield from (Mirror(os.path.join(beside, directory)) for directory in _BESIDE)
    home = environment.get("HOME", "")
    configuration = _configuration(environment, home)
    cache = environment.get("TF_PLUGIN_CACHE_DIR") or configuration.attributes.get("plugin_cache_dir")
    if isinstance(cache, str):
        yield Mirror(_expanded(cache, environment))
    installations = list(configuration.of_type("provider_installation"))
    if installations:
        for block in installations[0].of_type("filesystem_mirror"):
            yield _filesystem_mirror(block.attributes, environment)
        return
    data = environment.get("XDG_DATA_HOME", "")
    data = data if os.path.isabs(data) else os.path.join(home, ".local/share")
    yield Mirror(os.path.join(home, ".terraform.d/plugins"))
    yield from (Mirror(os.path.join(base, tool, "plugins")) for base in (data, *_SYSTEM) for tool in _TOOLS)


def _filesystem_mirror(attributes: Mapping[str, Any], environment: Mapping[str, str]) -> Mirror:
    """Return the mirror of a block ``filesystem_mirror`` with these attributes. Raise ``ValueError`` for wrong ones."""
    path = attributes.get("path") or ""
    include, exclude = (attributes.get(key) or [] for key in ("include", "exclude"))
    if not (isinstance(path, str) and isinstance(include, list) and isinstance(exclude, list)):
        msg = "a filesystem_mirror has a path, and may have lists include and exclude"
        raise ValueError(msg)  # noqa: TRY004 - as for every mistake in the file
    for pattern in (*include, *exclude):
        if not isinstance(pattern, str) or pattern.count("/") not in {1, 2}:
            forms = "'NAMESPACE/NAME' or 'HOST/NAMESPACE/NAME'"
            raise ValueError(f"include and exclude have patterns such as {forms}, not {pattern!r}")
    return Mirror(_expanded(path, environment), include, exclude)


def _configuration(environment: Mapping[str, str], home: str) -> HclBlock:
    """Return the configuration file of Terraform's or OpenTofu's command, in which users declare mirrors.

    Only the first file that exists counts. It is empty if there is none. Raise ``ValueError`` for an invalid file.
    """
    config_home = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files = [os.path.join(home, ".tofurc"), f"{config_home}/opentofu/tofurc", os.path.join(home, ".terraformrc")]
    stated = environment.get("TF_CLI_CONFIG_FILE", "")
    for path in [stated] if stated else files:
        try:
            with open(path, encoding="utf-8") as file:
                return parse_hcl(file.read())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return HclBlock("", (), {}, [])


def _expanded(path: str, environment: Mapping[str, str]) -> str:
    """Return a path with ``~`` and the variables in it replaced; unknown variables stay."""
    path = Template(path).safe_substitute(environment)
    return os.path.join(environment.get("HOME", ""), path[2:]) if path.startswith("~/") else path


class Package(NamedTuple):
    """One version of a provider for this machine: a directory, or a zip file."""

    version: Version
    path: str


def platform() -> str:
    """Return the name of this machine's platform in mirrors."""
    machine = os.uname().machine
    return f"linux_{_ARCHITECTURES.get(machine, machine)}"


def version_range(text: str) -> SpecifierSet:
    """Return a range of versions. Raise ``ValueError``, with a hint for one in the form of Terraform.

    >>> version_range("~> 2.0")
    Traceback (most recent call last):
    ...
    ValueError: '~> 2.0' is not a range of versions; write '~=2.0'
    """
    with suppress(InvalidSpecifier):
        return SpecifierSet(text)
    advice = "'>=1.2', '~=1.4' or '==2.0.1'"
    with suppress(InvalidSpecifier):
        translated = _TERRAFORM_OPERATORS.sub(lambda match: "~=" if match[0][0] == "~" else "==", text)
        SpecifierSet(translated)
        advice = f"'{translated}'"
    raise ValueError(f"'{text}' is not a range of versions; write {advice}")


def find(address: ProviderAddress, mirrors: Iterable[str]) -> Iterator[Package]:
    """Yield the packages of a provider in the directories ``mirrors``, in their order."""
    for mirror in mirrors:
        for directory in address.directories:
            path = os.path.join(mirror, directory)
            for name in _entries(path):
                if (package := _package(path, name, address.name)) is not None:
                    yield package


def _entries(path: str) -> list[str]:
    """Return the sorted entries of a directory, none where it is missing or cannot be read, as most mirrors are."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _package(directory: str, entry: str, name: str) -> Package | None:
    """Return the package of an ``entry`` of a mirror's directory, or None for any other entry.

    It is a zip file with the version in its name, or a directory named by the version, with one for each platform.
    """
    start, end = f"terraform-provider-{name}_", f"_{platform()}.zip"
    if entry.startswith(start) and entry.endswith(end):
        version, path = entry[len(start) : -len(end)], os.path.join(directory, entry)
    else:
        version, path = entry, os.path.join(directory, entry, platform())
        if not os.path.isdir(path):
            return None
    try:
        return Package(Version(version), path)
    except InvalidVersion:
        return None


def newest(packages: Iterable[Package], accepted: SpecifierSet) -> Package | None:
    """Return the newest accepted package, of equal ones the first; None where there is none."""
    fitting = [package for package in packages if accepted.contains(package.version)]
    return max(fitting, key=lambda package: package.version) if fitting else None


def executable(directory: str, name: str) -> str:
    """Return the path of the program in an unpacked package. Raise ``ResourceError`` unless there is exactly one."""
    start = f"terraform-provider-{name}"
    programs = [entry for entry in _entries(directory) if entry == start or entry.startswith(f"{start}_")]
    if len(programs) != 1:
        raise ResourceError(f"{directory} has {len(programs) or 'no'} program{'s' if programs else ''} {start}")
    return os.path.join(directory, programs[0])


def unpacked(package: Package, open_trusted: Callable[[str], int], cache: str) -> str:
    """Return the directory of a package; a zip file is unpacked once, into ``cache``, for all later runs.

    The name of the directory is a digest of the zip file's identity. A package is unpacked beside it and renamed, so
    that no killed run leaves half of one. ``open_trusted`` opens a trusted file. Raise ``ResourceError``,
    ``UntrustedCode``, ``OSError``.
    """
    if not package.path.endswith(".zip"):
        return package.path
    with os.fdopen(open_trusted(package.path), "rb") as file:
        status = os.fstat(file.fileno())
        # A changed zip file is unpacked anew.
        identity = package.path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        directory = os.path.join(cache, hashlib.sha256(repr(identity).encode()).hexdigest())
        make_directory(cache)
        if not private_files.is_private_directory(cache):
            msg = f"{cache} is not a directory that only you can change; run: chmod 700 {shell_word(cache)}"
            raise ResourceError(msg)
        with opened(cache, DIRECTORY_FLAGS) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be unpacking it
            if not os.path.isdir(directory):
                new = os.path.join(cache, "new")
                shutil.rmtree(new, ignore_errors=True)  # of a killed run
                unpack_new(_members(file), new)
                private_files.rename(new, directory)
    return directory


def _members(file: BinaryIO) -> Iterator[Member]:
    """Yield the members of a package's zip file. Refuse links.

    All members get the mode of an executable, because some packages do not record it for the program.
    """
    for member in archive_members.members(file, _LIMITS):
        if member.kind == "link":
            raise ResourceError(f"'{member.name}' is a link, which no package of a provider has")
        yield member._replace(mode=0o755)


class LockedProvider(NamedTuple):
    """The version that a lock file names, and the hashes of its package for each platform."""

    version: str
    hashes: Sequence[str] = ()


def package_hash(directory: str) -> str:
    """Return the hash ``h1:`` of an unpacked package, by which a lock file identifies it.

    The form is Terraform's: the digest of a text with a line ``DIGEST  NAME`` for each file, in the order of names.
    """
    paths = (os.path.join(parent, name) for parent, _, names in os.walk(directory) for name in names)
    lines = hashlib.sha256()
    for name in sorted(os.path.relpath(path, directory) for path in paths):
        with open(os.path.join(directory, name), "rb") as file:
            lines.update(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n".encode())
    return f"h1:{base64.b64encode(lines.digest()).decode()}"


def read_lock(path: str) -> dict[ProviderAddress, LockedProvider] | None:
    """Return the providers of a lock file by address; None where there is none. Raise ``ValueError``."""
    try:
        with open(path, encoding="utf-8") as file:
            blocks = parse_hcl(file.read()).of_type("provider")
            return {ProviderAddress.parse(block.labels[0]): _locked(block) for block in blocks}
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, OSError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _locked(block: HclBlock) -> LockedProvider:
    """Return the provider of a block. Raise ``LookupError``, ``TypeError`` or ``ValueError`` for another form."""
    version, hashes = block.attributes["version"], block.attributes["hashes"]
    if not (isinstance(version, str) and isinstance(hashes, list) and all(isinstance(item, str) for item in hashes)):
        raise TypeError(f"provider '{block.labels[0]}' needs a version and hashes")
    Version(version)  # raises for none
    return LockedProvider(version, hashes)


def lock_text(providers: Mapping[ProviderAddress, LockedProvider]) -> str:
    """Return the text of a lock file.

    >>> print(lock_text({ProviderAddress("hashicorp", "null"): LockedProvider("2.1.2", ["h1:a="])}))
    # Written by 'resource-api providers lock'. Keep it with the manifest.
    <BLANKLINE>
    provider "registry.opentofu.org/hashicorp/null" {
      version = "2.1.2"
      hashes = [
        "h1:a=",
      ]
    }
    <BLANKLINE>
    """
    blocks = [_LOCK_HEADER]
    for address in sorted(providers):
        locked = providers[address]
        hashes = "".join(f'    "{value}",\n' for value in sorted(locked.hashes))
        name = address._replace(host=address.host or DEFAULT_HOSTS[0])
        blocks.append(f'provider "{name}" {{\n  version = "{locked.version}"\n  hashes = [\n{hashes}  ]\n}}\n')
    return "\n".join(blocks)


class HclBlock(NamedTuple):
    """A block: its type, its labels, its attributes and the blocks in it; the type of a whole file is empty."""

    type: str
    labels: Sequence[str]
    attributes: dict[str, object]
    blocks: list[HclBlock]

    def of_type(self, name: str) -> Iterator[HclBlock]:
        """Yield the blocks of a type in this one."""
        return (block for block in self.blocks if block.type == name)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def parse_hcl(text: str) -> HclBlock:
    """Return a file in HCL, the format of Terraform's lock files and of the configuration of its command.

    Raise ``ValueError`` with the line of a text that is not understood.

    >>> parse_hcl('a "b" { c = ["d", 1] }').blocks
    [HclBlock(type='a', labels=('b',), attributes={'c': ['d', 1]}, blocks=[])]
    """
    parser = _Parser(list(_tokens(text)))
    body = parser.body("", ())
    if parser.token.kind != "end":
        raise parser.error()
    return body


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the words, texts, numbers and signs of a file in HCL. Raise ``ValueError`` with the line."""
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ValueError(f"line {line}: {text[position : position + 20]!r} is not understood")
        if match.lastgroup not in {"space", "newline"}:
            yield _Token(match.lastgroup, match[0], line)
        line += match[0].count("\n")
        position = match.end()
    yield _Token("end", "the end of the file", line)


class _Parser:
    """Reads the tokens of a file in HCL from the first to the last, and builds its blocks."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._position]

    def error(self) -> ValueError:
        return ValueError(f"line {self.token.line}: {self.token.text} is not expected")

    def _take(self, *kinds: str, text: str | None = None) -> str:
        """Return the text of the present token and go on. Raise ``ValueError`` for another kind or another ``text``."""
        token = self.token
        if token.kind not in kinds or (text is not None and token.text != text):
            raise self.error()
        self._position += 1
        return str(json.loads(token.text)) if token.kind == "text" else token.text

    def _is(self, text: str) -> bool:
        return self.token.kind == "sign" and self.token.text == text

    def body(self, kind: str, labels: Sequence[str]) -> HclBlock:
        """Return the block of type ``kind`` with ``labels``, up to a closing brace or the end of the file."""
        block = HclBlock(kind, labels, {}, [])
        while self.token.kind == "word":
            name, words = self._take("word"), list[str]()
            if self._is("="):
                self._take("sign")
                block.attributes[name] = self._value()
                continue
            while self.token.kind in {"text", "word"}:
                words.append(self._take("text", "word"))
            self._take("sign", text="{")
            block.blocks.append(self.body(name, tuple(words)))
            self._take("sign", text="}")
        return block

    def _value(self) -> Any:
        """Return the literal value at the present position; these files need no expressions."""
        token = self.token
        if token.kind == "word" and token.text in _WORDS:
            self._position += 1
            return _WORDS[token.text]
        if token.kind == "number":
            return json.loads(self._take("number"))
        if self._is("["):
            return list(self._items("[", "]"))
        if self._is("{"):
            return dict(self._items("{", "}"))
        return self._take("text")

    def _items(self, opening: str, closing: str) -> Iterator[Any]:
        """Yield the elements of a list in brackets, or the pairs of a mapping in braces, up to ``closing``."""
        self._take("sign", text=opening)
        while not self._is(closing):
            yield self._value() if opening == "[" else self._pair()
            if self._is(","):
                self._take("sign")
        self._take("sign", text=closing)

    def _pair(self) -> tuple[str, Any]:
        """Return a member of a mapping, ``key = value`` or ``key: value``. Raise ``ValueError`` for another form."""
        key = self._take("text", "word")
        if not (self._is("=") or self._is(":")):
            raise self.error()
        self._take("sign")
        return key, self._value()
