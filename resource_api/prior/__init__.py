"""Pure: recorded resources matched to the catalog: who is who, moved names, schema upgrades."""
