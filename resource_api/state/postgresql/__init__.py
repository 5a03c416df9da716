"""State in a PostgreSQL database, for several machines and users."""
