"""Pure: recorded resources matched with the catalog: moved names, orphans, provider instances, schema upgrades."""
