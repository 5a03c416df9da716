"""The commands about what is recorded, a module each."""
