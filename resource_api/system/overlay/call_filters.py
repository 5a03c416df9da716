"""Install filters of system calls, seccomp(2), in this process and all that it starts.

Which calls a filter is about must not enter here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    #: Code, the instructions to skip where a comparison holds and where it does not, and the operand.
    Instruction = tuple[int, int, int, int]

# Codes of instructions: load a word of the call, mask it, compare it, test bits of it, return.
LOAD, MASK, EQUAL, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
# What a filter returns: the call is made, the listener is asked, the call fails as one that is not permitted.
ALLOW, ASK, REFUSE = 0x7FFF0000, 0x7FC00000, 0x50000 | errno.EPERM
# Where the number of a call, its machine and its first argument of eight bytes are.
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16
_SET_SECCOMP, _FILTER_MODE = 22, 2
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_NO_NEW_PRIVILEGES: Final = 38


def install(instructions: Sequence[Instruction]) -> None:
    """Install a filter for good; this process has SYS_ADMIN in its user namespace. Raise ``OSError``."""
    libc = ctypes.CDLL(None, use_errno=True)
    code, program = _program(instructions)
    if libc.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.c_char_p(program), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "seccomp")
    del code


def install_with_listener(instructions: Sequence[Instruction], call: int) -> int:
    """Install a filter for good; return a descriptor of what it asks. ``call``: the number of seccomp(2).

    No program gains rights from then on: without a capability it could not be installed otherwise. Raise ``OSError``.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    code, program = _program(instructions)
    listener = libc.syscall(call, _SET_FILTER, _NEW_LISTENER, ctypes.c_char_p(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    del code
    return int(listener)


def _program(instructions: Sequence[Instruction]) -> tuple[ctypes.Array[ctypes.c_char], bytes]:
    """Return the memory of instructions, to be kept until they are installed, and the structure that names it."""
    code = b"".join(struct.pack("HBBI", *each) for each in instructions)
    memory = ctypes.create_string_buffer(code)
    return memory, struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(memory))
