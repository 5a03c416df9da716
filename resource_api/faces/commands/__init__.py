"""The subcommands of ``resource-api``: each parses, calls the runtime, renders; nothing else."""
