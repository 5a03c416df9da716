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

A line `[name]` begins a section. A line `setting = value` or `setting: value` is a setting; the first of these signs
that ends the declared name separates them. Lines that begin with `#` or `;` are comments. Elsewhere these characters
belong to the value, as programs differ in what they mean there; spaces around a value do not.

A value is changed in its line, whose indentation and separator stay. If a section repeats a setting, the
last one counts and is changed; `ensure: absent` removes them all. A new setting is added below its commented-out line
`#setting = ...`, otherwise below the last setting of the section; a new section at the end of the file. A section of
which the last line is removed is removed.

A value that continues in further lines is changed and removed with them. Which lines continue it depends on the
program, which is known by the path of the file:

- Python's configparser, as in `pip.conf`, `setup.cfg`, `tox.ini`: lines that are indented more than the setting.
- systemd, git, Samba: the line after one that ends with a backslash; they are read as one line, with a blank between.
- MySQL, PHP, desktop files, NetworkManager: none.
- In other files: what no program reads otherwise. These are indented lines below a setting without a value, indented
  lines that cannot be settings, and lines after a backslash with a blank before it. Where a line may be either, the
  setting is not changed, and the message names the line.

A file that does not exist is created with mode 0644, or 0600 if a value is a secret. All changes of a file are one
replacement of the file, which keeps its owner, mode, ACL and extended attributes. For files without `=` or `:`
between name and value, such as `sshd_config`, see `file_line`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file contains the setting.", default="present"),
        "path": path_attribute(),
        "section": Attribute(
            r"Optional[Pattern[/\A[^\x00\r\n]*\z/]]",
            "The section, without its brackets; empty for settings above the first one.",
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
            "The value. Numbers and booleans are texts: `true` is the text true. Of a value of several lines each one"
            " is indented; none may be blank or look like a comment or a section.",
            must_be="a text, a number or a boolean",
        ),
        "key_val_separator": Attribute(
            r"Pattern[/\A[ \t]*[=:][ \t]*\z/]",
            "What separates a new setting and its value.",
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
