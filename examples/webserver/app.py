"""A page that counts its visitors in PostgreSQL; its address, database and title are in an INI file."""

from __future__ import annotations

import configparser
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2  # type: ignore[import-untyped]

settings = configparser.ConfigParser()
settings.read(sys.argv[1])


class Handler(BaseHTTPRequestHandler):
    """Answer each request with the number of requests so far."""

    def do_GET(self) -> None:
        """Count the visitor and show the count."""
        with psycopg2.connect(settings["database"]["dsn"]) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS visits (at timestamptz DEFAULT now())")
            cursor.execute("INSERT INTO visits DEFAULT VALUES")
            cursor.execute("SELECT count(*) FROM visits")
            count = cursor.fetchone()[0]
        body = f"{settings['site']['title']}: visitor {count}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    host, _, port = settings["server"]["listen"].rpartition(":")
    ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
