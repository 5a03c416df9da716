"""What touches the world: programs, files, logs, modules on disk; used by the layers above, never above them."""
