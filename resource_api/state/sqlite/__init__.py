"""The durable ``StateStore``: one SQLite database for each machine or user."""
