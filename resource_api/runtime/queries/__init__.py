"""What is asked without a manifest: resources that are selected, one that is changed, and what is recorded."""
