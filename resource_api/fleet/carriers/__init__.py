"""What takes jobs to hosts and brings their events back: one protocol, one module for each way."""
