"""Jobs that cron runs at given times."""

from resource_api import Attribute, TypeDefinition


def field(docs: str, low: int, high: int) -> Attribute:
    """Return the attribute of a field of a schedule: a number, a text as in crontab(5), or a list of them."""
    one = rf"Integer[{low}, {high}], Pattern[/\A[\w*,\/-]+\z/]"
    return Attribute(
        f"Variant[{one}, Array[Variant[{one}], 1]]",
        f"{docs}, {low} to {high}.",
        default="*",
        must_be="a field as in crontab(5)",
    )


TYPE = TypeDefinition(
    name="cron",
    docs="""
        Manage jobs in the crontabs of users.

            Cron[backup]:
              command: /usr/local/bin/backup --quiet
              user: root
              hour: 3
              minute: [0, 30]

        A comment before each job contains its name, `# resource-api: NAME`. A job is identified by its name and its
        user: the same name in the crontab of another user is another job, and nothing of one crontab is ever used
        for another.
        Jobs without such a comment stay as they are and are not listed. Fields that are not declared are `*`, always.
        Cron ends the command at the first unescaped `%` and passes the rest to it on stdin.
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
            "The user who runs the job, in whose crontab it is.",
            kind="namevar",
            default="root",
            must_be="a user's name",
        ),
        "command": Attribute(
            r"Pattern[/\A[^\x00-\x08\x0a-\x1f\x7f]+\z/]",
            "The command, one line for the user's shell.",
            must_be="a command on one line",
        ),
        "minute": field("Minutes", 0, 59),
        "hour": field("Hours", 0, 23),
        "monthday": field("Days of the month", 1, 31),
        "month": field("Months, also by their English names", 1, 12),
        "weekday": field("Days of the week, also by their English names; Sunday is 0 and 7", 0, 7),
        "special": Attribute(
            "Enum[absent, reboot, yearly, annually, monthly, weekly, daily, midnight, hourly]",
            "A word instead of the five fields; `absent` for none.",
            default="absent",
        ),
        "environment": Attribute(
            r"Optional[Array[Pattern[/\A[ \t]*[A-Za-z_]\w*[ \t]*=[^\x00-\x08\x0a-\x1f\x7f]*\z/]]]",
            'Variables as `NAME=value`, written before the job, an empty value as `""`. They also apply to later jobs'
            " in the crontab, up to one that sets the variable anew; the plan names them.",
            must_be="NAME=value on one line",
        ),
    },
    title_patterns=[{"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"user": "$user", "package": "cron"},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
