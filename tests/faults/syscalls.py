"""The system calls that change files, names and locks, and a seccomp filter that stops a process at each of them."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

#: Calls of x86-64 by number: name, and the kind of each argument: ``f`` descriptor, ``d`` descriptor of the directory
#: of the path that follows, ``p`` path, ``o`` flags of open, ``h`` address of a structure that begins with them.
CALLS: Final = {
    1: ("write", "f"),
    2: ("open", "po"),
    18: ("pwrite64", "f"),
    20: ("writev", "f"),
    40: ("sendfile", "f"),
    46: ("sendmsg", "f"),
    73: ("flock", "f"),
    74: ("fsync", "f"),
    75: ("fdatasync", "f"),
    76: ("truncate", "p"),
    77: ("ftruncate", "f"),
    82: ("rename", "pp"),
    83: ("mkdir", "p"),
    84: ("rmdir", "p"),
    85: ("creat", "p"),
    86: ("link", "pp"),
    87: ("unlink", "p"),
    88: ("symlink", "-p"),
    90: ("chmod", "p"),
    91: ("fchmod", "f"),
    92: ("chown", "p"),
    93: ("fchown", "f"),
    94: ("lchown", "p"),
    132: ("utime", "p"),
    133: ("mknod", "p"),
    165: ("mount", "-p"),
    166: ("umount2", "p"),
    188: ("setxattr", "p"),
    189: ("lsetxattr", "p"),
    190: ("fsetxattr", "f"),
    197: ("removexattr", "p"),
    198: ("lremovexattr", "p"),
    199: ("fremovexattr", "f"),
    235: ("utimes", "p"),
    257: ("openat", "dpo"),
    258: ("mkdirat", "dp"),
    259: ("mknodat", "dp"),
    260: ("fchownat", "dp"),
    263: ("unlinkat", "dp"),
    264: ("renameat", "dpdp"),
    265: ("linkat", "dpdp"),
    266: ("symlinkat", "-dp"),
    268: ("fchmodat", "dp"),
    277: ("sync_file_range", "f"),
    280: ("utimensat", "dp"),
    285: ("fallocate", "f"),
    296: ("pwritev", "f"),
    306: ("syncfs", "f"),
    316: ("renameat2", "dpdp"),
    326: ("copy_file_range", "--f"),
    437: ("openat2", "dph"),
    452: ("fchmodat2", "dp"),
}
#: Flags of an open that makes or empties a file.
MAKES: Final = os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)

_ALLOW: Final = 0x7FFF0000
_TRACE: Final = 0x7FF00000
#: Instructions of a filter (seccomp(2)): a load, two jumps forward and the end.
_LOAD, _IF_EQUAL, _IF_ANY, _RETURN = 0x20, 0x15, 0x45, 0x06
_SET_SECCOMP, _FILTER, _NO_NEW_PRIVILEGES = 22, 2, 38


def install_filter() -> None:
    """Stop this process and all that it starts at each call of the table, for the tracer that it must have.

    An open that makes nothing is no call of the table: programs open hundreds of files only to read them.
    """
    opens = {number: kinds.index("o") for number, (_, kinds) in CALLS.items() if "o" in kinds}
    count, last = len(CALLS), len(CALLS) + 3 + 2 * len(opens)
    checks = {number: count + 2 + 2 * index for index, number in enumerate(opens)}
    instructions = [(_LOAD, 0, 0, 0)]  # the number of the call
    for path, number in enumerate(CALLS, 1):
        instructions.append((_IF_EQUAL, checks.get(number, last) - path - 1, 0, number))
    instructions.append((_RETURN, 0, 0, _ALLOW))
    for number, argument in opens.items():
        path = checks[number] + 1
        instructions += [(_LOAD, 0, 0, 16 + 8 * argument), (_IF_ANY, last - path - 1, last - path - 2, MAKES)]
    instructions += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _TRACE)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
