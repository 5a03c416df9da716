"""Writes a secret to every stream and includes it in an exception."""

import os
import subprocess
import sys

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        token = should["token"].reveal()
        print("printed", token)
        print("complained", token, file=sys.stderr)
        os.write(1, f"written {token}\n".encode())
        subprocess.run(["echo", "echoed", token], check=True)
        raise RuntimeError(f"bad token {token}")
