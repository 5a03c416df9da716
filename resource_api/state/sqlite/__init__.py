"""The durable store: one SQLite database for each machine or user."""
