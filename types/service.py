"""Services: whether they run, and whether they are started with the machine."""

from lib.unit_attributes import name_attribute, packages, refresh_attribute, unit_file_attribute
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="service",
    docs="""Manage services: whether they run now, and whether they are started when the machine starts.

    Service[nginx]:
      ensure: running
      enable: true
      subscribe: File[/etc/nginx/nginx.conf]
    File[/etc/nginx/nginx.conf]: {source: /srv/nginx.conf}

A service is never created or deleted here: a package or a file brings it. One that does not exist is read as stopped
and not enabled; to start or enable it is an error. When a resource that the service subscribes to changes, the service
is restarted, or reloaded with `refresh: reload`; one that does not run is left as it is.

The machine decides which of three providers is used: systemd or OpenRC where one of them has started the machine,
otherwise sysvinit, which asks the scripts of `/etc/init.d`, also in a container in which no init system runs. Nothing
but systemd has masks. Where scripts start services, `enable` means the runlevels that the head of a script names in
`Default-Start` and `Default-Stop`; a script that has no action `status` needs its `pidfile` if `ensure` is declared.

With systemd the name is a unit's: `nginx` and `nginx.service` are the same, `backup.timer`, `docker.socket` and
`getty@tty1` are others. If a unit cannot be started, the last lines of its log are part of the error. When a unit file
has changed, `systemctl daemon-reload` is called, once for all services that are changed together.

What systemd or OpenRC starts and stops together with a service is in the plan, as far as they know the unit, with the
units that `Also=` enables and disables, and a service fails that would [undo another
declaration](../commands.md#what-else-a-change-does).

`resource service` lists the units of the kind `service`, without those that are only other names of a unit; or all
scripts.
""",
    attributes={
        "name": name_attribute(),
        "ensure": Attribute(
            "Optional[Enum[running, stopped]]",
            "Whether it runs now. A unit that has failed, or waits for its next attempt to start, does not run.",
        ),
        "enable": Attribute(
            "Optional[Variant[Boolean, Enum[mask]]]",
            "Whether it is started with the machine; `mask`: nothing can start it. A unit that is `static` (it has no"
            " section `[Install]`) counts as not enabled, and cannot be enabled.",
        ),
        "refresh": refresh_attribute(),
        "pidfile": Attribute(
            r"Optional[Pattern[/\A(\/[^\/\x00-\x1f\x7f]+)+\z/]]",
            "With scripts: the file with the number of the process, which tells whether the service runs, instead of"
            " the action `status`; a full path.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "runlevel": Attribute(
            r"Optional[Pattern[/\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z/]]",
            "With OpenRC: the runlevel to which a service is added that is in none; otherwise `default`.",
            kind="parameter",
            must_be="the name of a runlevel",
        ),
        "state": Attribute(
            "Optional[String]",
            "The state as the init system calls it, such as `active (running)`, `crashed`, `dead` or `not-found`.",
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
    },
)
