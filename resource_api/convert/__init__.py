"""Convert playbooks of Ansible to manifests."""
