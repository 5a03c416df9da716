"""Files as they are found on machines, none of which a bundled type has written, each with an edit by its type."""

from __future__ import annotations

from typing import Any, NamedTuple


class OddFile(NamedTuple):
    """A file; a resource of it with a new value; and the piece of the file that the new value replaces.

    Without a resource none can be declared, and nothing is edited.
    """

    path: str
    text: bytes
    resource: str = ""
    attributes: dict[str, Any] = {}  # noqa: RUF012 - never changed
    old: bytes = b""
    new: bytes = b""


SOURCES, PINS, RULES = "/etc/apt/sources.list.d", "/etc/apt/preferences.d", "/etc/sudoers.d"
LOGS, UNITS, PARAMETERS, JOBS = "/etc/logrotate.d", "/etc/systemd/system", "/etc/sysctl.d", "/var/spool/cron/crontabs"

ODD_FILES = [
    OddFile(
        f"{SOURCES}/odd.sources",
        b"# by hand\r\n\r\ntypes: deb\r\nURIs:  https://a.example/x\r\n\thttps://b.example/x\r\nSuites:stable\r\n"
        b"Components: main\r\nX-Repolib-Name: Caf\xe9\r\n",
        "Apt_source[odd]",
        {"uris": ["https://a.example/x", "https://b.example/x"], "suites": ["testing"], "components": ["main"]},
        b"Suites:stable",
        b"Suites: testing",
    ),
    OddFile(
        f"{SOURCES}/odd.sources",
        b"Enabled: no\nTypes: deb-src deb deb\nURIs: http://a.example/x\nSuites: a/ b/\nSigned-By:\n"
        b" -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY\n -----END PGP PUBLIC KEY BLOCK-----\n#Suites: old/\n\n\n",
        "Apt_source[odd]",
        {"uris": ["http://a.example/x"], "suites": ["a/", "b/"], "components": [], "options": {"Trusted": True}},
        b"#Suites: old/",
        b"Trusted: yes\n#Suites: old/",
    ),
    OddFile(
        f"{SOURCES}/odd.sources",
        b"Types: deb\nURIs: cdrom:[Debian_12]/\nSuites: stable\nComponents: main\nLanguages: none\nPDiffs: FALSE",
        "Apt_source[odd]",
        {"uris": ["cdrom:[Debian_12]/"], "suites": ["stable"], "components": ["main", "contrib"]},
        b"Components: main",
        b"Components: main contrib",
    ),
    OddFile(f"{SOURCES}/odd.sources", b"Types: deb\nURIs: http://a.example/x\n\nTypes: deb\nURIs: http://b.example/\n"),
    OddFile(f"{SOURCES}/odd.sources", b"Types: deb\nURIs: http://a.example/x\n"),
    OddFile(f"{SOURCES}/odd.sources", b"deb http://a.example/x stable main\n"),
    OddFile(f"{SOURCES}/odd.sources", b"\n# nothing\n"),
    OddFile(f"{SOURCES}/odd.list", b"deb [arch=amd64] http://a.example/x stable main # why\n"),
    OddFile(
        f"{PINS}/odd",
        b'Package: *\nPin: origin ""\nPin-Priority: 1001\n',
        "Apt_pin[odd]",
        {"packages": ["*"], "pin": 'origin ""', "priority": 1002},
        b"1001",
        b"1002",
    ),
    OddFile(
        f"{PINS}/odd.pref",
        b"Explanation: this\nPackage: /^linux-(image|headers)/ src:git:any\nPin: Release a=x , n=*\n"
        b"Pin-Priority:    -1\n",
        "Apt_pin[odd]",
        {"packages": ["/^linux-(image|headers)/", "src:git:any"], "pin": "release a=x,n=*", "priority": -2},
        b"Pin-Priority:    -1",
        b"Pin-Priority: -2",
    ),
    OddFile(f"{PINS}/odd.pref", b"Package: a\nPin: origin\nPin-Priority: 1\n"),
    OddFile(f"{PINS}/odd.pref", b"Package: a\nPin: release\nPin-Priority: 1\n"),
    OddFile(f"{PINS}/odd.pref", b"Package: a\nPin: version\nPin-Priority: 99999\n"),
    OddFile(f"{PINS}/odd.pref", b"Package:\nPin-Priority: 0\n"),
    OddFile(f"{PINS}/odd", b"not a record\n"),
    OddFile(
        f"{RULES}/odd",
        b"# Caf\xe9\n\n%admin\tALL=(ALL:ALL)NOPASSWD:ALL\n#end",
        "Sudo_rule[odd]",
        {"user": "%admin", "commands": ["ALL"], "runas": "ALL:ALL", "nopasswd": False},
        b"%admin\tALL=(ALL:ALL)NOPASSWD:ALL",
        b"%admin ALL = (ALL:ALL) ALL",
    ),
    OddFile(f"{RULES}/odd", b"ann ALL = /bin/a, \\\n  /bin/b\n"),
    OddFile(f"{RULES}/odd", b"Defaults:ann !requiretty\nann ALL=(root) NOPASSWD: /bin/a\n\n\n"),
    OddFile(f"{RULES}/odd", b"#1000 ALL=(ALL) sha224:0GomF8mNN3wlDt1HD9XldjJ3SNgpFdbjO1+NsQ== /bin/ls\n"),
    OddFile(f"{RULES}/odd", b"ann ALL = NOPASSWD: /bin/a, PASSWD: /bin/b\n"),
    OddFile(f"{RULES}/odd", b"ann ALL = TIMEOUT=5 /bin/a\n"),
    OddFile(f"{RULES}/odd", b"# only a comment\n"),
    OddFile(f"{RULES}/odd", b""),
    OddFile(f"{RULES}/odd.disabled", b"nonsense\n"),
    OddFile(f"{LOGS}/odd", b"# none\n\n"),
    OddFile(f"{LOGS}/odd", b"/srv/a.log /srv/b.log\n{\n\tweekly\r\n}\n# Caf\xe9 \x07\n"),
    OddFile(f"{LOGS}/odd", b""),
    OddFile(f"{LOGS}/odd~", b"nonsense {\n"),
    OddFile(f"{UNITS}/odd.service", b"[Service]\nExecStart=/bin/sh -c \\\n  'echo ${HOME}'\n; Caf\xe9"),
    OddFile(f"{UNITS}/odd.service", b""),
    OddFile(f"{UNITS}/odd.service.d/50-x.conf", b"[Service]\r\nNice=5\r\n"),
    OddFile(f"{UNITS}/a b.service", b"[Service]\nExecStart=/bin/true\n"),
    OddFile(
        f"{PARAMETERS}/odd.conf",
        b"; a\n\n-net.ipv4.ip_forward=0\n net/ipv4/conf/all/rp_filter  =\t1 # x\nnonsense\nkernel.domainname = caf\xe9",
        "Sysctl[net.ipv4.ip_forward]",
        {"target": f"{PARAMETERS}/odd.conf", "value": 1, "apply": False},
        b"-net.ipv4.ip_forward=0",
        b"net.ipv4.ip_forward = 1",
    ),
    OddFile(f"{PARAMETERS}/odd.conf", b"net.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.all.rp_filter\nkernel.x =\n"),
    OddFile(
        f"{JOBS}/root",
        b"PATH=/bin\n# Caf\xe9\n*/5 * * * * a\n# resource-api: odd\nA = b c\n\t0  0 1,1 jan-mar Sun\tx  y%z\n@daily w",
        "Cron[odd]",
        {
            "command": "x  y%z",
            "minute": 5,
            "hour": 0,
            "monthday": 1,
            "month": "1-3",
            "weekday": 0,
            "environment": ["A=b c"],
        },
        b"A = b c\n\t0  0 1,1 jan-mar Sun\tx  y%z",
        b"A=b c\n5 0 1 1-3 0 x  y%z",
    ),
    OddFile(
        f"{JOBS}/root", b"# resource-api: odd\n# resource-api: odd\n0 0 * * * a\n# resource-api: b\n\n1 1 * * * c\n"
    ),
    OddFile(f"{JOBS}/root", b"# resource-api: odd\n0 0 * * 1-5/2,6-7 a\n# resource-api: odd\n@midnight b\n"),
    OddFile(f"{JOBS}/root", b"# resource-api: odd\n60 25 * * mon a\n# resource-api: e\n@every_minute b\n"),
    OddFile(f"{JOBS}/root", b"# resource-api: odd\nMAILTO=\n 'A B' = 1\n@reboot x\n"),
]
