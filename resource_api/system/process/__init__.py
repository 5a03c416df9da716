"""Programs: which are trusted, how they are started, watched and ended."""
