"""Jobs that cron runs at set times."""

from resource_api import Attribute, TypeDefinition


def field(docs: str, low: int, high: int) -> Attribute:
    """Declare one of the five fields of a schedule: a number, a text as in crontab(5), or a list of them."""
    one = rf"Integer[{low}, {high}], Pattern[/\A[\w*,\/-]+\z/]"
    return Attribute(f"Variant[{one}, Array[Variant[{one}], 1]]", f"{docs}, {low} to {high}.", default="*")


TYPE = TypeDefinition(
    name="cron",
    docs="""
        Manage jobs in the crontabs of users.

        A job's name is kept in a comment before it, `# resource-api: NAME`, and must be the only one of all users.
        Jobs without such a comment stay as they are and are not listed. Times that are not given are `*`, every one.
        Cron cuts the command at an unescaped `%` and hands the rest to it as input.
    """,
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether there is such a job.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?\z/]", "The job's name.", kind="namevar"
        ),
        "user": Attribute(
            r"Pattern[/\A[\w.][\w.-]*\$?\z/]", "Whose crontab has the job and who runs it.", default="root"
        ),
        "command": Attribute(
            r"Pattern[/\A[^\x00-\x08\x0a-\x1f\x7f]+\z/]", "What is run, by the user's shell, on one line."
        ),
        "minute": field("Minutes", 0, 59),
        "hour": field("Hours", 0, 23),
        "monthday": field("Days of the month", 1, 31),
        "month": field("Months, also by their English names", 1, 12),
        "weekday": field("Days of the week, also by their English names; Sunday is 0 and 7", 0, 7),
        "special": Attribute(
            "Enum[absent, reboot, yearly, annually, monthly, weekly, daily, midnight, hourly]",
            "A word instead of the five fields.",
            default="absent",
        ),
        "environment": Attribute(
            r"Optional[Array[Pattern[/\A[ \t]*[A-Za-z_]\w*[ \t]*=[^\x00-\x08\x0a-\x1f\x7f]*\z/]]]",
            "Variables as `NAME=value`, set before the job. They hold for the jobs after it in the crontab too.",
        ),
    },
    autorequires={"user": "$user", "package": "cron"},
    features={"canonicalize", "simple_get_filter", "validate"},
)
