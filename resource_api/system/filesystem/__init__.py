"""Read and change files, directories, links, archives and downloads, safe against other users and crashes.

The desired state of a resource is decided by types and providers, not here. Linux only.
"""
