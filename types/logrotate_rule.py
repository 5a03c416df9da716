"""Rules for the rotation of logs."""

from resource_api import Attribute, TypeDefinition

PATHS = r"Pattern[/\A[\"\/][^\x00-\x1f\x7f{}]*\z/]"

LINE = r"Pattern[/\A[^\x00-\x08\x0a-\x1f\x7f]+\z/]"

TYPE = TypeDefinition(
    name="logrotate_rule",
    docs="""Manage how logs are rotated, each rule a file in /etc/logrotate.d.

    Logrotate_rule[nginx]:
      content:
        /var/log/nginx/*.log:
          rotate_every: weekly
          rotate: 8
          compress: true
          ifempty: false
          create: 0640 www-data adm
          postrotate: systemctl reload nginx

A section begins with the paths of its logs, separated by blanks. Settings are those of logrotate(8): `true` is the word
alone, `false` its negation (`nocompress`, `notifempty`), other values follow the word. `rotate_every` is `hourly`,
`daily`, `weekly`, `monthly` or `yearly`. A script, such as `postrotate`, is a line or a list of lines. Before a file is
written, `logrotate --debug` checks the whole directory; a log that another file has is an error that names both.
The plan warns of these errors.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[A-Za-z0-9_][\w-]{0,200}\z/]",
            "The name of the file. logrotate ignores names that end like backups.",
            kind="namevar",
            must_be="a name of letters, digits, _ and -",
        ),
        "content": Attribute(
            rf"Variant[String[1], Hash[{PATHS}, Hash[Pattern[/\A[a-z_]+\z/], Variant[Boolean, Integer,"
            rf" {LINE}, Array[{LINE}]]], 1]]",
            "The text of the file, or its sections with their settings.",
            must_be="paths, the first one absolute, or a setting's word",
        ),
    },
    autorequires={"package": ["logrotate", "$name"]},
    features={"canonicalize", "preflight", "preflight_of_removals", "simple_get_filter"},
)
