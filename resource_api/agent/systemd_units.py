"""The systemd units of an agent: its service, and the timer that starts it instead of the loop.

They have all restrictions that are compatible with an agent (systemd.exec(5)). Applying a manifest may write anywhere,
mount and start services, so a private mount namespace and ``NoNewPrivileges`` would break types. An agent that only
reports has these restrictions, too.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.options import Settings

NAME: Final = "resource-api-agent"
_HOUR, _DAY, _MINUTE = 3600, 86400, 60
_ONCE: Final = "Type=oneshot\n"
_FOREVER: Final = "Type=exec\nRestart=always\nRestartSec=60\n"

#: For every agent: privileges that neither the bundled types nor their programs need.
_RESTRICTIONS: Final = """\
UMask=0077
LimitCORE=0
LockPersonality=yes
RestrictRealtime=yes
KeyringMode=private
SystemCallFilter=~@clock @cpu-emulation @obsolete @raw-io
SystemCallErrorNumber=EPERM
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
"""
#: For an agent that changes the machine: without the capabilities that no type needs.
_CHANGING: Final = """\
CapabilityBoundingSet=~CAP_BLOCK_SUSPEND CAP_BPF CAP_LEASE CAP_MAC_OVERRIDE CAP_PERFMON CAP_SYS_BOOT
CapabilityBoundingSet=~CAP_SYS_PACCT CAP_SYS_RAWIO CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_WAKE_ALARM
"""
#: For an agent that only reports: it can read everything and write only its own directories.
_REPORTING: Final = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_NET_ADMIN CAP_SETGID CAP_SETUID
SystemCallFilter=~@module @mount @reboot @swap
SystemCallArchitectures=native
RuntimeDirectory=resource-api-agent
RuntimeDirectoryMode=0700
Environment=TMPDIR=/run/resource-api-agent
"""


def units(arguments: Sequence[str], settings: Settings, variables: Mapping[str, str], state: str) -> dict[str, str]:
    """Return name → text of the service, and of its timer with the setting ``timer``, for ``agent unit`` to print.

    ``arguments``: those of ``agent run``; ``variables``: its environment; ``state``: the directory of the default
    state. Raise ``UsageError`` for a relative path, whose meaning would change in a service, and for a period that no
    timer can have.
    """
    _check_paths(settings)
    timer, spread = settings["timer"], settings["every"] if settings["splay"] is None else settings["splay"]
    command = " ".join(map(_quoted, [*_program(), "agent", "once" if timer else "run", *arguments]))
    environment = "".join(f"Environment={_quoted(f'{name}={text}', '%')}\n" for name, text in variables.items())
    service = (
        "[Unit]\nDescription=Apply a signed manifest periodically\n"
        "Wants=network-online.target\nAfter=network-online.target\n\n"
        f"[Service]\n{_ONCE if timer else _FOREVER}ExecStart={command}\n{environment}WorkingDirectory=/\n"
        "KillMode=mixed\nTimeoutStopSec=15min\nSuccessExitStatus=SIGTERM 143\n"
        f"{_directories(settings, state)}{_RESTRICTIONS}{_REPORTING if settings['mode'] == 'noop' else _CHANGING}"
    )
    if not timer:
        return {f"{NAME}.service": service + "\n[Install]\nWantedBy=multi-user.target\n"}
    text = (
        "[Unit]\nDescription=Apply a signed manifest periodically\n\n"
        f"[Timer]\nOnCalendar={_calendar(int(settings['every']))}\nRandomizedDelaySec={int(spread)}\n"
        "FixedRandomDelay=yes\nPersistent=yes\nAccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n"
    )
    return {f"{NAME}.service": service, f"{NAME}.timer": text}


def _directories(settings: Settings, state: str) -> str:
    """Return the service's lines for the agent's directories.

    systemd creates the default state directory. An agent that only reports (``noop``) runs with a read-only system, so
    the paths that it writes are listed as exceptions.
    """
    lines = "StateDirectory=resource-api\nStateDirectoryMode=0700\n" if state == "/var/lib/resource-api" else ""
    if settings["mode"] == "noop":
        targets = (target.text for target in (*settings["reports"], *settings["metrics"]))
        paths = (state, settings["directory"], *(path for path in targets if path.startswith("/")))
        # "-": a path that does not exist yet is no error.
        words = (_quoted(f"-{path}", "%") for path in dict.fromkeys(filter(None, paths)))
        lines += f"ReadWritePaths={' '.join(words)}\n"
    return lines


def _calendar(period: int) -> str:
    """Return the calendar event (systemd.time(7)) of a period in seconds, for the timer.

    A calendar event has the same times in each hour or day. Raise ``UsageError`` for a period that divides neither.
    """
    if period % _MINUTE == 0 and _HOUR % period == 0:
        return f"*:0/{period // _MINUTE}" if period < _HOUR else "hourly"
    if period % _HOUR == 0 and _DAY % period == 0:
        return f"0/{period // _HOUR}:00" if period < _DAY else "daily"
    raise UsageError("a timer needs a period that divides an hour into minutes, or a day into hours, such as 30m or 6h")


def _program() -> list[str]:
    """Return the words that start this program: the script beside the interpreter, or the module if there is none."""
    program = f"{os.path.dirname(sys.executable)}/resource-api"
    return [program] if os.access(program, os.X_OK) else [sys.executable, "-P", "-m", "resource_api"]


def _check_paths(settings: Settings) -> None:
    """Raise ``UsageError`` for a relative path in the settings: a service is started in /, where it is another file."""
    source = settings["source"].removeprefix("file://")
    paths = [*settings["module_path"], *settings["trust_path"], *settings["input_files"]]
    paths += [settings["signers"], settings["directory"]]
    if "://" not in source:
        paths.append(source)
    if settings.get("inputs_key"):
        paths.append(settings["inputs_key"].path)
    for path in paths:
        if path and not os.path.isabs(path):
            raise UsageError(f"'{path}' would be another file in a service, which is started in /; write its full path")


def _quoted(word: str, doubled: str = "%$") -> str:
    """Quote a word for a unit file of systemd, which would otherwise expand parts of it.

    ``doubled``: the characters that the directive expands and whose doubling means the character itself: ``%`` begins a
    specifier in each directive, ``$`` a variable in ``ExecStart`` alone.
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    for special in doubled:
        escaped = escaped.replace(special, special * 2)
    plain = word and all(char.isalnum() or char in "/._-:=,@+#" for char in word)
    return escaped if plain else f'"{escaped}"'
