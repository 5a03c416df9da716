"""Settings in files with sections, such as php.ini, my.cnf and units of systemd."""

from lib.path_attribute import file_and_directories, path_attribute, validate_attribute
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="ini_setting",
    docs="""Manage single settings of INI files; comments, order and all other lines keep every byte.

    Ini_setting[time zone]:
      path: /etc/php/8.2/cli/php.ini
      section: Date
      setting: date.timezone
      value: Europe/Berlin

    Ini_setting[/etc/systemd/journald.conf:Journal:SystemMaxUse]: {value: 1G}
    Ini_setting[/etc/app.ini:Debug:trace]: {ensure: absent}

A line `[name]` begins a section; `setting = value` or `setting: value` is a setting; lines that begin with `#` or `;`
are comments. Elsewhere these characters belong to the value; spaces around a value do not. But git (`#` and `;`), MySQL
(`#`), PHP (`;`), and Ansible and Supervisor (`;` after a blank) begin a comment with them behind a value: it stays, and
a value with such a character needs double quotes.

A changed value keeps its indentation and separator. If a section repeats a setting, the last one counts; `ensure:
absent` removes them all. A new setting is added below its commented-out line `#setting = ...`, otherwise at the end of
its section; a new section at the end of the file. An empty section is removed.

Continuation lines are changed and removed with their setting. The path of the file determines the rule:

- Python's configparser (`pip.conf`, `setup.cfg`, `tox.ini`): lines that are indented more than the setting.
- systemd, git, Samba: the line after a backslash at the end; the lines are joined with a blank.
- MySQL, PHP, desktop files, NetworkManager: none.
- Other files: indented lines below a setting without a value, indented lines that cannot be settings, and lines after a
  blank and a backslash. If a line may be either, the setting is not changed, and the error names the line.

A setting is found in each spelling that the program of the file takes for the same one: names in any case in files of
configparser, git (sections too) and Samba (also without blanks), `-` and `_` in those of MySQL.

A new file has mode 0644, or 0600 if a value is a secret. All changes of a file are one replacement, which keeps owner,
mode, ACL and extended attributes. For files without `=` or `:` between name and value, such as `sshd_config`, use
`file_line`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file contains the setting.", default="present"),
        "path": path_attribute(),
        "section": Attribute(
            r"Optional[Pattern[/\A[^\x00\r\n]*\z/]]",
            "The section without brackets; empty for settings above the first one.",
            kind="namevar",
            default="",
            must_be="the name of a section",
        ),
        "setting": Attribute(
            r"Pattern[/\A(?![\s#;\[])[^\x00\r\n]*[^\s]\z/]",
            "The setting.",
            kind="namevar",
            must_be="the name of a setting",
        ),
        "value": Attribute(
            r"Variant[Pattern[/\A[^\x00\r\n]*(\n[ \t]*[^\s\x00#;\[][^\x00\r\n]*)*\n?\z/], Numeric, Boolean]",
            "The value. Numbers and booleans are written as text. Several lines are indented; none may be blank,"
            " or look like a comment or a section.",
            must_be="a text, a number or a boolean",
        ),
        "key_val_separator": Attribute(
            r"Pattern[/\A[ \t]*[=:][ \t]*\z/]",
            "The separator of a new setting.",
            kind="parameter",
            default=" = ",
            must_be="'=' or ':', with or without spaces",
        ),
        "validate_cmd": validate_attribute(),
    },
    title_patterns=[
        {"pattern": r"(?P<path>/[^:]*):(?P<section>[^:]*):(?P<setting>[^:]+)\z"},
        {"pattern": r"[\s\S]+\z"},
    ],
    autorequires={"file": file_and_directories},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
