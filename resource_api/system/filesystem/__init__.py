"""Read and change files, directories, links, archives and downloads, safe against other users and crashes.

What a resource should be must not enter here: types and providers decide that.
"""
