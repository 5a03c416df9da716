"""Completion in bash, zsh and fish: click finds what can be completed, here it is brought to each shell and back.

A script asks the command itself, with ``_RESOURCE_API_COMPLETE`` in its environment. What is completed is data: a shell
gets it quoted, or quotes it itself, and never evaluates it. Whatever goes wrong, the answer is empty.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, ClassVar, Final

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

from resource_api.cli.completion import bash_words
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

_BASH: Final = r"""# Completion of resource-api for bash.
_resource_api() {
    local reply
    mapfile -t reply < <(
        _RESOURCE_API_COMPLETE=bash_complete _RESOURCE_API_LINE="${COMP_LINE:0:COMP_POINT}" \
            _RESOURCE_API_BREAKS="$COMP_WORDBREAKS" "${1/#\~\//$HOME/}" 2>/dev/null </dev/null
    )
    COMPREPLY=("${reply[@]:1}")
    case ${reply[0]-} in
        file) compopt -o default ;;
        dir) compopt -o dirnames ;;
        nospace) compopt -o nospace ;;
    esac
}
complete -o nosort -F _resource_api resource-api
"""

_ZSH: Final = r"""#compdef resource-api
# Completion of resource-api for zsh.
_resource_api() {
    local current=$PREFIX value
    local -a reply values shown space
    [[ -z $compstate[quote] ]] && current=${(Q)PREFIX}
    reply=("${(@0)"$(_RESOURCE_API_COMPLETE=zsh_complete "${words[1]/#\~\//$HOME/}" \
        "${(@Q)words[2,CURRENT-1]}" "$current" 2>/dev/null </dev/null)"}")
    case $reply[1] in
        file) _files; return ;;
        dir) _files -/; return ;;
        nospace) space=(-S '') ;;
    esac
    shift reply
    while (( $#reply >= 2 )); do
        values+=("$reply[1]")
        shown+=("${reply[2]:0:$((COLUMNS - 1))}")
        shift 2 reply
    done
    (( $#values )) && compadd -U -V resource-api -l -d shown "${space[@]}" -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _resource_api "$@"
else
    compdef _resource_api resource-api
fi
"""

_FISH: Final = r"""# Completion of resource-api for fish.
function __resource_api_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -lx _RESOURCE_API_COMPLETE fish_complete
    set -l reply ($program $words[2..-1] "$current" 2>/dev/null </dev/null | string split0)
    switch "$reply[1]"
        case file
            __fish_complete_path "$current"
        case dir
            __fish_complete_directories "$current"
        case '*'
            test (count $reply) -gt 2; and string join0 -- $reply[2..-2] | string split0
    end
end
complete -c resource-api -f -a '(__resource_api_complete)'
"""


class _Complete(ShellComplete):
    """What the three shells have in common."""

    script: ClassVar[str]

    def source(self) -> str:
        """Return the script of this shell."""
        return self.script

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete one, and that word, as the shell has passed them."""
        *words, incomplete = [*sys.argv[1:], ""] if len(sys.argv) == 1 else sys.argv[1:]
        return words, incomplete

    def complete(self) -> str:
        """Return what the script gets: how to go on, and each value in the form that the shell needs."""
        try:
            words, incomplete = self.get_completion_args()
            option, equals, _ = incomplete.partition("=")
            attached = f"{option}=" if equals and option.startswith("--") else ""
            items = [item for item in self.get_completions(words, incomplete) if _can_be_passed(item.value)]
            files = next((item.type for item in items if item.type in {"file", "dir"}), "")
            for item in items:
                item.value = attached + item.value
            nospace = bool(items) and all(item.value.endswith(("=", "=@")) for item in items)
            return self.answer(files or ("nospace" if nospace else "plain"), [] if files else items, incomplete)
        except Exception:  # noqa: BLE001 - an error would be shown in the middle of the line that is typed
            return ""

    def answer(self, then: str, items: Sequence[CompletionItem[str]], incomplete: str) -> str:  # noqa: ARG002 - bash's
        """Return the answer in one text. ``then``: ``file``, ``dir``, ``nospace`` or ``plain``."""
        # Click adds the end of a line, which must not become part of the last value.
        return "\0".join([then, *map(self.format_completion, items), ""])


class _Bash(_Complete):
    """Bash: values are quoted here as the word under the cursor is, because bash inserts them as they are."""

    name = "bash"
    script = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words of the line up to the cursor, without their quotes."""
        words, self._word = bash_words.split(os.environ.get("_RESOURCE_API_LINE", ""))
        return words[1:], self._word.text

    def answer(self, then: str, items: Sequence[CompletionItem[str]], incomplete: str) -> str:
        """Return a line for each value: the part of it that takes the place of what bash takes for the word."""
        kept = self._word.kept(os.environ.get("_RESOURCE_API_BREAKS", ""))
        values = [item.value for item in items if item.value.startswith(incomplete)]
        quoted = [bash_words.quoted(value[len(kept) :], self._word.quote) for value in values]
        return "\n".join([then, *(each for each in quoted if each is not None)])


class _Zsh(_Complete):
    """Zsh quotes what it inserts; what it shows is escaped here."""

    name = "zsh"
    script = _ZSH

    def answer(self, then: str, items: Sequence[CompletionItem[str]], incomplete: str) -> str:
        """Return the answer, in which the descriptions are aligned."""
        self._width = max((len(escape(item.value)) for item in items if item.help), default=0)
        return super().answer(then, items, incomplete)

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the value, and how it is shown."""
        shown = escape(item.value)
        return f"{item.value}\0" + (f"{shown:{self._width}}  -- {escape(item.help)}" if item.help else shown)


class _Fish(_Complete):
    """Fish quotes what it inserts and escapes what it shows."""

    name = "fish"
    script = _FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words; fish passes the incomplete one with its quotes."""
        words, incomplete = super().get_completion_args()
        return words, bash_words.split(incomplete)[1].text

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the value and its description; a tab would be taken for the separator of both."""
        return item.value.replace("\t", " ") + (f"\t{item.help}" if item.help else "")


def _can_be_passed(value: str) -> bool:
    """Return whether a program can get ``value`` as an argument: without NUL, and as UTF-8."""
    return not re.search("[\\0\\ud800-\\udfff]", value)


def register() -> None:
    """Have click use these classes in place of its own."""
    for shell in (_Bash, _Zsh, _Fish):
        add_completion_class(shell)


#: Shell → its script.
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
