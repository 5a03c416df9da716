"""Refuse the system calls that reach beyond an overlay whatever the capabilities are.

Keys of the kernel belong to a user and outlive namespaces; programs in the kernel, its modules and other kernels are
those of the machine. A refused call is not permitted (``EPERM``), as in containers.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from resource_api.system.overlay import call_filters as bpf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd, init_module, finit_module, delete_module, kexec_load,
# kexec_file_load; on x86-64 also kexec_load of x32.
_X86_64: Final = (248, 249, 250, 321, 298, 323, 175, 313, 176, 246, 320, 528)
_I386: Final = (286, 287, 288, 357, 336, 374, 128, 350, 129, 283)
_GENERIC: Final = (217, 218, 219, 280, 241, 282, 105, 273, 106, 104, 294)
_ARM: Final = (309, 310, 311, 386, 364, 388, 128, 379, 129, 347, 401)
_S390X: Final = (278, 279, 280, 351, 331, 355, 128, 344, 129, 277, 381)
_PPC64LE: Final = (269, 270, 271, 361, 319, 364, 128, 353, 129, 268, 382)
#: By machine: its number for filters, and that of another one whose programs its kernel executes → numbers of calls.
_MACHINES: Final[Mapping[str, Mapping[int, Sequence[int]]]] = {
    "x86_64": {0xC000003E: _X86_64, 0x40000003: _I386},
    "aarch64": {0xC00000B7: _GENERIC, 0x40000028: _ARM},
    "riscv64": {0xC00000F3: _GENERIC},
    "s390x": {0x80000016: _S390X},
    "ppc64le": {0xC0000015: _PPC64LE},
}
#: Without the bit that marks the calls of x32.
_PLAIN: Final = 0xFFFFFFFF & ~0x40000000


def refuse() -> None:
    """Refuse these calls to this process and all that it starts, for good. Raise ``OSError``."""
    code: list[bpf.Instruction] = [(bpf.LOAD, 0, 0, bpf.MACHINE)]
    for machine, numbers in _MACHINES[os.uname().machine].items():
        calls = [each for n in numbers for each in ((bpf.EQUAL, 0, 1, n), (bpf.RETURN, 0, 0, bpf.REFUSE))]
        block = [(bpf.LOAD, 0, 0, bpf.NUMBER), (bpf.MASK, 0, 0, _PLAIN), *calls, (bpf.RETURN, 0, 0, bpf.ALLOW)]
        code += [(bpf.EQUAL, 0, len(block), machine), *block]
    # Calls of any other machine are not known.
    bpf.install([*code, (bpf.RETURN, 0, 0, bpf.REFUSE)])
