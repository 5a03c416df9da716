#!/bin/sh
# Reads the machine of `examples/webserver` with the programs that our second run starts, with the same arguments.
# With the argument `all` also what that run reads by itself, with the usual program for it.
set -eu
as() { user=$1; shift; HOME=/nonexistent setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }

systemctl show --property=Id,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload --no-pager -- \
  postgresql.service app.service nginx.service app-check.timer
systemctl show --property=NeedDaemonReload --value --no-pager -- app-check.service app-check.timer app.service
cd /
echo 'SELECT * FROM pg_roles' | as postgres psql -XqAtw
echo 'SELECT * FROM pg_database' | as postgres psql -XqAtw
cd /srv/app
as app git status --porcelain=v2 --branch -z --untracked-files=no --ignore-submodules=untracked
as app git config --local --get remote.origin.url
as app git -c credential.helper= ls-remote --symref -- git://127.0.0.1/app refs/heads/main refs/tags/main

[ "${1:-}" = all ] || exit 0
hostname
readlink /etc/localtime
sysctl net.core.somaxconn net.ipv4.tcp_syncookies
dpkg-query -W nginx nginx-common postgresql python3-psycopg2 python3-cryptography git sudo cron logrotate
getent passwd alice bob app
getent shadow alice bob app
getent group admins app
cat /etc/hosts /home/alice/.ssh/authorized_keys /home/bob/.ssh/authorized_keys /etc/sudoers.d/admins /etc/app/app.ini \
  /etc/systemd/system/app.service /etc/systemd/system/app-check.service /etc/systemd/system/app-check.timer
stat /etc/app /etc/app/app.ini /etc/ssl/web /etc/nginx/conf.d/site.conf /srv/www /srv/www/robots.txt /var/backups/app
sha256sum /etc/nginx/conf.d/site.conf /srv/www/robots.txt
for name in ca site; do
  openssl pkey -noout -text -in /etc/ssl/web/$name.key
  openssl x509 -noout -text -in /etc/ssl/web/$name.pem
done
crontab -u postgres -l
ss -Hltn sport = :8000 or sport = :443
