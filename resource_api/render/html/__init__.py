"""Plans, runs and relationships as HTML pages that need no network; nothing else writes HTML."""
