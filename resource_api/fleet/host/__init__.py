"""What runs on a host: one job, carried out once, its events sent; nothing here runs where the command was given."""
