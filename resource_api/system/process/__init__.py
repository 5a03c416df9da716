"""Start programs, read their output, and end them with all their descendants; find the programs that are trusted."""
