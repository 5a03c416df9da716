"""Files, directories, links, archives and downloads, safe against other users and crashes."""
