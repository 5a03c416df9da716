"""The package for Debian: the program with its libraries, because Debian's own are older than needed."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Final

from resource_api.agent.systemd_units import units
from resource_api.model.values.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from release.source import Source

#: Everything that a bundled type or an option of the command can need.
EXTRAS: Final = "age,encryption,mysql,settings,ssh,templates,x509"
#: The directory of the program with its libraries, as installed.
HOME: Final = "/usr/lib/resource-api"
PYTHON: Final = f"python3.{sys.version_info.minor}"
#: The files of completion, as the packages of the shells expect them.
COMPLETIONS: Final = {
    "bash": "usr/share/bash-completion/completions/resource-api",
    "zsh": "usr/share/zsh/vendor-completions/_resource-api",
    "fish": "usr/share/fish/vendor_completions.d/resource-api.fish",
}
#: The options of the agent that the unit runs; ``agent unit`` describes them.
OPTIONS: Final = """\
# Options of the agent, as for 'resource-api agent run'. After a change: systemctl restart resource-api-agent
# OPTIONS=--from git+https://git.example.org/web.git#main --signers /etc/resource-api/signers site.yaml
"""
#: What the scripts of the package do: nothing but telling systemd.
RELOAD: Final = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n"
STOP: Final = (
    'if [ "$1" = remove ] && [ -d /run/systemd/system ]; then\n'
    "    systemctl disable --now --quiet resource-api-agent.service || true\nfi\n"
)


def build(source: Source, wheel: Path, directory: Path) -> Path:
    """Build the package of a wheel for the Debian, the Python and the architecture of this machine; return its path."""
    root = directory / "root"
    _install(root, wheel)
    _write(root, "etc/resource-api/agent", OPTIONS)
    _write(root, "lib/systemd/system/resource-api-agent.service", unit())
    documentation = "usr/share/doc/resource-api"
    _write(root, f"{documentation}/copyright", (source.directory / "LICENSE").read_text())
    _write(root, f"{documentation}/changelog.gz", (source.directory / "CHANGELOG.md").read_text())
    _manual(source, root)
    for shell, path in COMPLETIONS.items():
        _write(root, path, _program(root, "completion", "show", shell))
    _control(root)
    architecture = _output("dpkg", "--print-architecture").strip()
    package = directory / f"resource-api_{__version__}_{architecture}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(package)],
        check=True,
        env=source.environment,
        stdout=subprocess.DEVNULL,
    )
    return package


def unit() -> str:
    """Return the unit of the agent, with its options in ``/etc/resource-api/agent``."""
    settings = {
        **dict.fromkeys(("timer", "splay", "directory", "mode")),
        **dict.fromkeys(("module_path", "trust_path", "input_files", "reports", "metrics"), ()),
        "every": 1800.0,
        "source": "git+https://git.example.org/web.git",
        "signers": "/etc/resource-api/signers",
    }
    (text,) = units([], settings, {}, "/var/lib/resource-api").values()
    start = f"ExecStart={HOME}/bin/resource-api agent run $OPTIONS\nEnvironmentFile=/etc/resource-api/agent"
    return re.sub(r"ExecStart=.*", lambda _: start, text)


def _install(root: Path, wheel: Path) -> None:
    """Write the environment: the wheel with its libraries, compiled, and links to Debian's Python."""
    libraries = f"{HOME}/lib/{PYTHON}/site-packages"
    target = root / libraries[1:]
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, f"{wheel}[{EXTRAS}]"], check=True)
    shutil.rmtree(target / "bin", ignore_errors=True)
    for record in target.glob("*.dist-info/RECORD"):  # the digests of files that were moved, and dates
        record.unlink()
    for trace in target.glob("*.dist-info/direct_url.json"):
        trace.unlink()
    mode = ["--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *mode, str(target)], check=True)
    home = root / HOME[1:]
    _write(root, f"{HOME[1:]}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    script = f"""\
        #!{HOME}/bin/python3 -P
        import sys

        from resource_api.__main__ import main

        sys.exit(main())
        """
    _write(root, f"{HOME[1:]}/bin/resource-api", dedent(script), 0o755)
    (home / "bin" / "python3").symlink_to(f"/usr/bin/{PYTHON}")
    (root / "usr/bin").mkdir()
    (root / "usr/bin/resource-api").symlink_to(f"..{HOME.removeprefix('/usr')}/bin/resource-api")


def _manual(source: Source, root: Path) -> None:
    build_directory = root.with_name("manual")
    options = ["--builder", "man", "--conf-dir", "docs", "--quiet", ".", str(build_directory)]
    subprocess.run([sys.executable, "-m", "sphinx", *options], check=True, cwd=source.directory, env=source.environment)
    for page in build_directory.glob("*.1"):
        _write(root, f"usr/share/man/man1/{page.name}.gz", page.read_text())


def _program(root: Path, *arguments: str) -> str:
    """Return the output of a command of the program that was installed beneath ``root``."""
    libraries = root / f"{HOME[1:]}/lib/{PYTHON}/site-packages"
    environment = {**os.environ, "PYTHONPATH": str(libraries), "PYTHONDONTWRITEBYTECODE": "1"}
    return _output(sys.executable, "-S", "-P", "-m", "resource_api", *arguments, env=environment)


def _control(root: Path) -> None:
    """Write what dpkg reads: the description, the configuration files, the scripts."""
    minor = sys.version_info.minor
    size = int(_output("du", "-ks", "--apparent-size", str(root)).split()[0])
    control = f"""\
        Package: resource-api
        Version: {__version__}
        Architecture: {_output("dpkg", "--print-architecture").strip()}
        Maintainer: The resource-api project <maintainers@resource-api.invalid>
        Installed-Size: {size}
        Depends: python3 (>= 3.{minor}), python3 (<< 3.{minor + 1}), {PYTHON}
        Recommends: ca-certificates, openssh-client
        Suggests: git
        Section: admin
        Priority: optional
        Description: configuration management and infrastructure as code in Python
         Describe machines and services in YAML or Python, see what would change,
         change it, and verify it. Two methods of a provider, get and set, give the
         whole lifecycle: plan, apply, drift, import, replacement, recovery.
        """
    _write(root, "DEBIAN/control", dedent(control))
    _write(root, "DEBIAN/conffiles", "/etc/resource-api/agent\n")
    for name, script in {"postinst": RELOAD, "prerm": STOP, "postrm": RELOAD}.items():
        _write(root, f"DEBIAN/{name}", f"#!/bin/sh\nset -e\n{script}", 0o755)


def _write(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    """Write a file beneath ``root``, compressed where its name says so."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    target.write_bytes(gzip.compress(content, mtime=0) if path.endswith(".gz") else content)
    target.chmod(mode)


def _output(*argv: str, env: dict[str, str] | None = None) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=env).stdout
