"""The command ``resource-api``: parse, call ``runtime``, render, map errors to exit codes."""
