"""Pure: recorded resources matched with the catalog: former names, orphans, recovery, instances, schema upgrades."""
