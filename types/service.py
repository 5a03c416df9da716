"""Services: whether they run, and whether they are started with the machine."""

from lib.unit_attributes import name_attribute, packages, refresh_attribute, unit_file_attribute
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="service",
    docs="""Manage services: whether they run now, and whether they start at boot.

    Service[nginx]:
      ensure: running
      enable: true
      subscribe: File[/etc/nginx/nginx.conf]
    File[/etc/nginx/nginx.conf]: {source: /srv/nginx.conf}

Services are never created or deleted: a package or file brings them. A missing service is read as stopped and not
enabled; starting or enabling it is an error. A notification restarts a running service, or reloads it with `refresh:
reload`.

The provider is auto-detected: systemd or OpenRC if it has started the machine, otherwise sysvinit, which uses the
scripts in `/etc/init.d`, also in containers without an init system. Only systemd has `mask`. With scripts, `enable`
means the runlevels in `Default-Start` and `Default-Stop`; a script without the action `status` needs its `pidfile` if
`ensure` is declared.

With systemd the name is a unit: `nginx` is `nginx.service`; `backup.timer`, `docker.socket` and `getty@tty1` are
others. If a unit cannot be started, the error has the last lines of its log. One `systemctl daemon-reload` loads all
changed unit files.

The plan shows services that systemd or OpenRC starts and stops together with a service, and units that `Also=` enables.
A service fails if its change would [undo another declaration](../commands.md#what-else-a-change-does).
""",
    attributes={
        "name": name_attribute(),
        "ensure": Attribute(
            "Optional[Enum[running, stopped]]",
            "Whether it runs now. A unit that has failed, or waits for a restart, does not run.",
        ),
        "enable": Attribute(
            "Optional[Variant[Boolean, Enum[mask]]]",
            "Whether it starts at boot; `mask`: nothing can start it. A `static` unit, without `[Install]`, counts"
            " as not enabled and cannot be enabled.",
        ),
        "refresh": refresh_attribute(),
        "pidfile": Attribute(
            r"Optional[Pattern[/\A(\/[^\/\x00-\x1f\x7f]+)+\z/]]",
            "With scripts: the file with the process number, in place of the action `status`.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "runlevel": Attribute(
            r"Optional[Pattern[/\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z/]]",
            "With OpenRC: the runlevel for a service that is in none; otherwise `default`.",
            kind="parameter",
            must_be="the name of a runlevel",
        ),
        "state": Attribute(
            "Optional[String]",
            "The state in the words of the init system, such as `active (running)`, `crashed`, `dead` or `not-found`.",
            kind="read_only",
        ),
        "unit_file": unit_file_attribute(),
    },
    autorequires={"package": packages},
    features={
        "canonicalize",
        "custom_insync",
        "not_rehearsable",
        "preflight",
        "refreshable",
        "side_effects",
        "simple_get_filter",
        "validate",
    },
)
