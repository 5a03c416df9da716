"""Lines of text files, each found by a regular expression."""

from lib.line_attributes import line_attributes
from lib.path_attribute import file_and_directories, path_attribute, validate_attribute
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="file_line",
    docs=r"""Manage single lines of a text file; all other lines keep every byte.

    File_line[editor]:
      path: /etc/environment
      line: EDITOR=vim

    File_line[no passwords]:
      path: /etc/ssh/sshd_config
      match: '^#?PasswordAuthentication\b'
      line: PasswordAuthentication no
      insertbefore: '^Match\b'

    File_line[/etc/environment:^PAGER=]: {ensure: absent}

A resource is the line that `match` finds. It becomes `line`, in its place; if there is none, `line` is added. So
`match` must find the new line too. Without `match` the line is found by its own text. `ensure: absent` removes every
line that is found.

If different lines match and none is as declared, that is an error, unless `multiple: true` changes all of them. Regular
expressions are Python's, and are searched within one line.

A new file has mode 0644, or 0600 if a line is a secret. All changes of a file are one replacement, which keeps owner,
mode, ACL, extended attributes, line ends, a missing newline at the end, and bytes that are not UTF-8.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file contains the line.", default="present"),
        "path": path_attribute(),
        "match": Attribute(
            r"Optional[Pattern[/\A[^\x00\n]*\z/]]",
            "A regular expression that finds the old and the new line. Empty: the text of `line`.",
            kind="namevar",
            default="",
            must_be="a regular expression for one line",
        ),
        "line": Attribute(r"Pattern[/\A[^\x00\r\n]*\z/]", "The line.", must_be="a text without a line break"),
        "multiple": Attribute(
            "Boolean", "Whether every line that `match` finds becomes `line`.", kind="parameter", default=False
        ),
        **line_attributes("the line"),
        "others": Attribute("Optional[Array[String]]", "Other lines that `match` finds.", kind="read_only"),
        "validate_cmd": validate_attribute(),
    },
    title_patterns=[{"pattern": r"(?P<path>/[^:]*):(?P<match>[\s\S]+)\z"}, {"pattern": r"[\s\S]+\z"}],
    autorequires={"file": file_and_directories},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
