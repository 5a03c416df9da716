"""``get`` and ``set`` write by ``print``, to the descriptor, by a child process and with escape sequences."""

import os
import subprocess
import sys

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        self._shout()
        return super().get(context)

    def set(self, context, changes):
        self._shout()
        super().set(context, changes)

    def _shout(self):
        print("printed \x1b[31min red")
        print("printed without an end", end="")
        sys.stdout.write("written\n")
        sys.__stdout__.write("to the original\n")
        sys.__stdout__.flush()
        os.write(1, b"on the descriptor\n")
        subprocess.run(["echo", "by a child"], check=True)
