"""A real sshd on a machine of its own: all of its file system is discarded, and each address 127.x.y.z is one host.

Hosts share the kernel and the programs of this machine, and one directory. Each has a home, and for root a state and a
cache, of its own: the login shell finds them by the address that was connected to. A file ``profile`` of a host is read
by that shell, so that a test can give one host other programs, another clock or bad manners.
"""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Users there: root, one that may become root with a password by sudo and doas, one that needs none, one that may not.
#: Their numbers are those of no other account: ``userdel`` refuses one with processes, also with those of a namespace.
USERS: Final = {"deploy": 54801, "ops": 54802, "guest": 54803}
#: The password of ``deploy``.
PASSWORD: Final = "correct-horse-7Q"
#: Seconds until sshd must listen.
_START: Final = 20.0
_SHELL: Final = """#!/bin/sh
host=${SSH_CONNECTION% *}
host=/hosts/${host##* }
export HOME="$host/$USER"
[ -d "$host" ] || mkdir -m 1777 "$host" 2>/dev/null
mkdir -p "$HOME"
cd "$HOME"
if [ "$USER" = root ] && [ -z "$RA_MOUNTED" ]; then
    mkdir -p -m 700 "$host/state" "$host/cache"
    export RA_MOUNTED=1
    exec unshare -m sh -c 'mount --bind "$0/state" /var/lib/resource-api; mount --bind "$0/cache" \
/var/cache/resource-api; exec /usr/local/bin/test-shell "$@"' "$host" "$@"
fi
unset RA_MOUNTED
if [ -r "$host/profile" ]; then . "$host/profile"; fi
exec /bin/sh "$@"
"""
_CONFIG: Final = """
Port {port}
ListenAddress 0.0.0.0
HostKey /etc/ssh/test/host
HostCertificate /etc/ssh/test/host-cert.pub
AuthorizedKeysFile /etc/ssh/test/authorized_keys
TrustedUserCAKeys /etc/ssh/test/authority.pub
AllowUsers *@127.0.0.0/8
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 1000
PidFile none
Subsystem sftp /usr/lib/openssh/sftp-server
PrintMotd no
Banner /etc/ssh/test/banner
"""
#: Arguments: an empty directory for mounts, the one with the keys and the configuration, the one that is shared.
_BOOT: Final = f"""
set -e
base=$1; given=$2; shared=$3
mount --make-rprivate /
mount -t tmpfs tmpfs "$base"
mkdir "$base/up" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/up,workdir=$base/work" "$base/root"
cd "$base/root"
mkdir -p etc/ssh/test hosts usr/local/bin
cp "$given"/* etc/ssh/test
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p "./$shared"
mount --bind "$shared" "./$shared"
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/pts dev/shm old
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
pivot_root . old
umount -l old
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /run/sshd /var/lib/resource-api /var/cache/resource-api
chmod 700 /var/lib/resource-api /var/cache/resource-api
chmod 1777 /hosts
mv /etc/ssh/test/shell /usr/local/bin/test-shell
chmod 755 /usr/local/bin/test-shell
rm -f /etc/sudoers.d/* /var/lib/sudo/lectured/*
id sshd >/dev/null 2>&1 || useradd --system --no-create-home --home-dir /run/sshd --shell /usr/sbin/nologin sshd
for user in {" ".join(f"{name}:{number}" for name, number in USERS.items())}; do
    name=${{user%:*}}
    useradd --uid "${{user#*:}}" --home-dir / --no-create-home --no-log-init --shell /usr/local/bin/test-shell "$name"
done
usermod --shell /usr/local/bin/test-shell root
chpasswd --crypt-method SHA512 --sha-rounds 1000 </etc/ssh/test/passwords
printf 'Defaults !lecture, timestamp_timeout=0, passwd_tries=3\\nroot ALL=(ALL) ALL\\n' >/etc/sudoers
printf 'deploy ALL=(root) ALL\\nops ALL=(root) NOPASSWD: ALL\\n' >>/etc/sudoers
printf 'permit deploy as root\\npermit nopass ops as root\\n' >/etc/doas.conf
chmod 440 /etc/sudoers
chmod 600 /etc/doas.conf
exec env -i PATH="$PATH" /usr/sbin/sshd -D -e -f /etc/ssh/test/config
"""


class Server:
    """The machine; ``port`` is where sshd listens on all addresses, ``keys`` holds the keys that it knows."""

    def __init__(self, pid: int, port: int, directory: Path) -> None:
        """Use a server that has been started; ``pid`` is that of its first process."""
        self.log = directory / "log"
        self.pid = pid
        self.port = port
        self.keys = directory / "keys"

    @property
    def host_key(self) -> str:
        """The public key of all the hosts, as known_hosts has it."""
        return " ".join((self.keys / "host.pub").read_text(encoding="ascii").split()[:2])

    @property
    def identity(self) -> Path:
        """A private key that all users accept."""
        return self.keys / "user"

    def path(self, inside: str) -> Path:
        """Return the path here of a file there."""
        return Path(f"/proc/{self.pid}/root") / inside.lstrip("/")

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program there as root, and return how it ended."""
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root", "--wd", *arguments]
        return subprocess.run(inside, check=True, text=True, capture_output=True, timeout=50, **options)

    def processes(self, address: str) -> list[int]:
        """Return the processes that a connection to an address has started."""
        entries = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                variables = (process / "environ").read_bytes().split(b"\0")
                if any(
                    variable.startswith(b"SSH_CONNECTION=") and f" {address} ".encode() in variable
                    for variable in variables
                ):
                    entries.append(int(process.name))
        return entries

    def profile(self, address: str, text: str) -> None:
        """Have the login shell of a host read these lines."""
        self.run("mkdir", "-p", "-m", "1777", f"/hosts/{address}")
        self.path(f"/hosts/{address}/profile").write_text(text, encoding="utf-8")

    def known_hosts(self, file: Path, pattern: str = "127.*") -> Path:
        """Write a file of known hosts in which the addresses of ``pattern`` have the key of the server."""
        file.write_text(f"[{pattern}]:{self.port} {self.host_key}\n", encoding="ascii")
        return file


@contextmanager
def started_server(directory: Path, shared: Path) -> Iterator[Server]:
    """Start a server, and end all that runs there; ``directory`` is empty, ``shared`` is the same there and here."""
    keys, mounts = directory / "keys", directory / "mounts"
    keys.mkdir()
    mounts.mkdir()
    port = _free_port()
    _write(keys, port)
    namespaces = ["--mount", "--pid", "--fork", "--ipc", "--uts", "--kill-child", "--propagation", "private"]
    log = directory / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            # It ends with this process, whatever ends that.
            [
                "setpriv",
                "--pdeathsig",
                "KILL",
                "unshare",
                *namespaces,
                "sh",
                "-c",
                _BOOT,
                "sh",
                str(mounts),
                str(keys),
                str(shared),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield Server(_wait_for(process, port, log), port, directory)
    finally:
        process.kill()
        process.wait()


def _write(keys: Path, port: int) -> None:
    """Write the keys, and the files that the server has of this machine."""
    for name in ("host", "user", "stranger", "certified", "authority"):
        _keygen("-t", "ed25519", "-N", "", "-C", "", "-f", str(keys / name))
    _keygen("-s", str(keys / "authority"), "-I", "all", "-n", ",".join(("root", *USERS)), str(keys / "certified.pub"))
    _keygen("-s", str(keys / "authority"), "-I", "hosts", "-h", str(keys / "host.pub"))
    (keys / "authorized_keys").write_bytes((keys / "user.pub").read_bytes())
    (keys / "config").write_text(_CONFIG.format(port=port), encoding="ascii")
    (keys / "banner").write_text("Authorised use only\nLast line, without its end", encoding="ascii")
    (keys / "shell").write_text(_SHELL, encoding="ascii")
    (keys / "passwords").write_text("".join(f"{user}:{PASSWORD}\n" for user in USERS), encoding="ascii")


def _keygen(*arguments: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *arguments], check=True, stdin=subprocess.DEVNULL, timeout=20)


def _free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        port: int = result.getsockname()[1]
    return port


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> int:
    """Return the process id of sshd as soon as it answers."""
    until = time.monotonic() + _START
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
            if connection.recv(4) == b"SSH-":
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
                return int(children.split()[0])
        time.sleep(0.02)
    raise AssertionError(f"sshd has not started: {log.read_text(encoding='utf-8')}")
