"""Filter the system calls of this process and its descendants by seccomp(2), to refuse or to observe them."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from resource_api.system import c_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    #: An instruction (struct sock_filter): code, instructions to skip if a comparison holds, and if not, operand.
    Instruction = tuple[int, int, int, int]

# Codes of instructions: load a word of the call, mask it, compare it, test its bits, return.
LOAD, MASK, EQUAL, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
# Results of a filter: make the call, ask the listener, fail with EPERM.
ALLOW, ASK, REFUSE = 0x7FFF0000, 0x7FC00000, 0x50000 | errno.EPERM
# Offsets in struct seccomp_data: number of the call, machine, first argument of eight bytes.
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16
_SET_SECCOMP, _FILTER_MODE = 22, 2
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_NO_NEW_PRIVILEGES: Final = 38


def install(instructions: Sequence[Instruction]) -> None:
    """Install a filter permanently. Needs SYS_ADMIN in the user namespace. Raise ``OSError``."""
    with _program(instructions) as address:
        c_library.call("prctl", _SET_SECCOMP, _FILTER_MODE, address, 0, 0, path="seccomp")


def install_with_listener(instructions: Sequence[Instruction], call: int) -> int:
    """Install a filter of system calls permanently; return the descriptor by which a process answers held calls.

    ``call``: the number of seccomp(2) on this machine. From then on this process and its programs gain no privileges,
    as by set-user-ID: otherwise the kernel refuses a filter of a process without SYS_ADMIN. Raise ``OSError``.
    """
    c_library.prctl(_NO_NEW_PRIVILEGES, 1)
    with _program(instructions) as address:
        return c_library.call("syscall", call, _SET_FILTER, _NEW_LISTENER, ctypes.c_void_p(address), path="seccomp")


@contextmanager
def _program(instructions: Sequence[Instruction]) -> Iterator[int]:
    """Yield the address of a filter in the form that the kernel takes (struct sock_fprog); valid in the block only."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code)))
    yield ctypes.addressof(program)


# add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd, init_module, finit_module, delete_module, kexec_load,
# kexec_file_load; on x86-64 also kexec_load of x32.
_X86_64: Final = (248, 249, 250, 321, 298, 323, 175, 313, 176, 246, 320, 528)
_I386: Final = (286, 287, 288, 357, 336, 374, 128, 350, 129, 283)
_GENERIC: Final = (217, 218, 219, 280, 241, 282, 105, 273, 106, 104, 294)
_ARM: Final = (309, 310, 311, 386, 364, 388, 128, 379, 129, 347, 401)
_S390X: Final = (278, 279, 280, 351, 331, 355, 128, 344, 129, 277, 381)
_PPC64LE: Final = (269, 270, 271, 361, 319, 364, 128, 353, 129, 268, 382)
#: Machine → its number in filters, and the number of another machine whose programs it executes → numbers of calls.
_MACHINES: Final[Mapping[str, Mapping[int, Sequence[int]]]] = {
    "x86_64": {0xC000003E: _X86_64, 0x40000003: _I386},
    "aarch64": {0xC00000B7: _GENERIC, 0x40000028: _ARM},
    "riscv64": {0xC00000F3: _GENERIC},
    "s390x": {0x80000016: _S390X},
    "ppc64le": {0xC0000015: _PPC64LE},
}
#: Without the bit that marks the calls of x32.
_WITHOUT_X32_BIT: Final = 0xFFFFFFFF & ~0x40000000


def refuse() -> None:
    """Refuse permanently (EPERM) the system calls that reach beyond an overlay with any capabilities.

    Keys of the kernel belong to a user and outlive namespaces; programs in the kernel, its modules and other kernels
    belong to the whole machine. The filter compares the machine of a call before its number, because a 64-bit kernel
    also executes programs of a 32-bit machine, whose calls have other numbers. Raise ``OSError``.
    """
    code: list[Instruction] = [(LOAD, 0, 0, MACHINE)]
    # For each machine a block that refuses its calls with these numbers and allows all others.
    for machine, numbers in _MACHINES[os.uname().machine].items():
        calls = [step for number in numbers for step in ((EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE))]
        block = [(LOAD, 0, 0, NUMBER), (MASK, 0, 0, _WITHOUT_X32_BIT), *calls, (RETURN, 0, 0, ALLOW)]
        code += [(EQUAL, 0, len(block), machine), *block]
    # The calls of other machines are unknown.
    install([*code, (RETURN, 0, 0, REFUSE)])
