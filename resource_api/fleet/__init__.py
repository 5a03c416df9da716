"""Many hosts: a job goes to each, its events come back; the run happens on the host, and its state stays there."""
