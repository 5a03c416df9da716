"""Run a program again and again with the library that the runtime starts programs with, and nothing else.

python programs_floor.py COUNT
"""

from __future__ import annotations

import sys

import sh

program = sh.Command("/bin/true")
for _ in range(int(sys.argv[1])):
    program()
