"""Leaves two child processes, one of them in a separate session, and completes its changes."""

import subprocess

from json_store import JsonStore


class Provider(JsonStore):
    def set(self, context, changes):
        super().set(context, changes)
        for seconds, private in (("3.61", True), ("3.62", False)):
            subprocess.Popen(
                ["sleep", seconds], start_new_session=private, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
