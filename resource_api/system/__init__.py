"""The only owners of files, programs, sockets, threads and the log; each module owns one part of the world."""
