"""Jobs that cron runs at given times."""

from resource_api import Attribute, TypeDefinition


def field(docs: str, low: int, high: int) -> Attribute:
    """Return the attribute of a field of a schedule: a number, a text as in crontab(5), or a list of them."""
    one = rf"Integer[{low}, {high}], Pattern[/\A[\w*,\/-]+\z/]"
    return Attribute(f"Variant[{one}, Array[Variant[{one}], 1]]", docs, default="*", must_be="a field as in crontab(5)")


TYPE = TypeDefinition(
    name="cron",
    docs="""
        Manage jobs in the crontabs of users.

            Cron[backup]:
              command: /usr/local/bin/backup --quiet
              user: root
              hour: 3
              minute: [0, 30]

        A comment before each job has its name, `# resource-api: NAME`. A job is identified by its name and its user.
        Jobs without such a comment stay and are not listed. Undeclared fields are `*`. Cron passes text after the first
        unescaped `%` of a command to its stdin.
    """,
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the job exists.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?\z/]",
            "The job's name.",
            kind="namevar",
            must_be="a name on one line",
        ),
        "user": Attribute(
            r"Pattern[/\A[\w.][\w.-]*\$?\z/]",
            "The user who runs the job and owns the crontab.",
            kind="namevar",
            default="root",
            must_be="a user's name",
        ),
        "command": Attribute(
            r"Pattern[/\A[^\x00-\x08\x0a-\x1f\x7f]+\z/]",
            "The command line for the user's shell.",
            must_be="a command on one line",
        ),
        "minute": field("Minutes, 0 to 59.", 0, 59),
        "hour": field("Hours, 0 to 23.", 0, 23),
        "monthday": field("Days of the month, 1 to 31.", 1, 31),
        "month": field("Months, 1 to 12, or their English names.", 1, 12),
        "weekday": field("Days of the week, 0 to 7 (0 and 7 are Sunday), or their English names.", 0, 7),
        "special": Attribute(
            "Enum[absent, reboot, yearly, annually, monthly, weekly, daily, midnight, hourly]",
            "A word instead of the five fields, or `absent`.",
            default="absent",
        ),
        "environment": Attribute(
            r"Optional[Array[Pattern[/\A[ \t]*[A-Za-z_]\w*[ \t]*=[^\x00-\x08\x0a-\x1f\x7f]*\z/]]]",
            'Variables as `NAME=value`, `""` for an empty value. They also apply to later jobs in the crontab; the'
            " plan names these.",
            must_be="NAME=value on one line",
        ),
    },
    title_patterns=[{"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"user": "$user", "package": "cron"},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
