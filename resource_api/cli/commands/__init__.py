"""One module for each command, or for commands that share nearly everything."""
