# The machine of `examples/webserver/site.yaml` for Salt, with the state modules of the package `salt` of PyPI.
{% set domain = 'www.example.org' %}
{% set title = 'Welcome' %}
{% set repository = 'git://127.0.0.1/app' %}

# The machine
/etc/hostname:
  file.managed:
    - contents: web1
hostname web1:
  cmd.run:
    - unless: test "$(hostname)" = web1
web1:
  host.present:
    - ip: 127.0.1.1
    - clean: true
/etc/localtime:
  file.symlink:
    - target: /usr/share/zoneinfo/Etc/UTC
db.internal:
  host.present:
    - ip: 127.0.0.1
net.core.somaxconn:
  sysctl.present:
    - value: 1024
net.ipv4.tcp_syncookies:
  sysctl.present:
    - value: 1

packages:
  pkg.installed:
    - pkgs:
      - nginx
      - nginx-common
      - postgresql
      - python3-psycopg2
      - python3-cryptography
      - git
      - sudo
      - cron
      - logrotate

# People
admins:
  group.present:
    - system: true
{% for name, key in {
  'alice': 'AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1',
  'bob': 'AAAAC3NzaC1lZDI1NTE5AAAAIJmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy2',
}.items() %}
{{ name }}:
  user.present:
    - home: /home/{{ name }}
    - shell: /bin/bash
    - groups: [admins]
    - remove_groups: true
{{ name }}@laptop:
  ssh_auth.present:
    - user: {{ name }}
    - enc: ssh-ed25519
    - name: {{ key }}
    - comment: {{ name }}@laptop
{% endfor %}
/etc/sudoers.d/admins:
  file.managed:
    - mode: '0440'
    - check_cmd: visudo -c -f
    - contents: "%admins ALL=(root:root) NOPASSWD: /usr/bin/systemctl restart app.service"

# The database
postgresql:
  service.running:
    - enable: true
role app:
  postgres_user.present:
    - name: app
    - login: true
    - superuser: false
    - user: postgres
database app:
  postgres_database.present:
    - name: app
    - owner: app
    - user: postgres

# The application
app user:
  group.present:
    - name: app
    - system: true
  user.present:
    - name: app
    - system: true
    - gid: app
    - home: /srv/app
    - createhome: false
    - shell: /usr/sbin/nologin
/srv/app:
  file.directory:
    - user: app
    - group: app
  git.latest:
    - name: {{ repository }}
    - rev: main
    - target: /srv/app
    - user: app
    - watch_in:
      - service: app
/etc/app:
  file.directory:
    - user: root
    - group: root
    - mode: '0755'
/etc/app/app.ini:
  file.managed:
    - user: root
    - group: app
    - mode: '0640'
    - replace: false
  ini.options_present:
    - sections:
        server: {listen: '127.0.0.1:8000'}
        site: {title: {{ title }}}
        database: {dsn: dbname=app}
    - watch_in:
      - service: app
/etc/systemd/system/app.service:
  file.managed:
    - mode: '0644'
    - contents: |
        [Unit]
        Description=The application
        After=postgresql.service

        [Service]
        User=app
        ExecStart=/usr/bin/python3 /srv/app/app.py /etc/app/app.ini
        ProtectSystem=strict
        Restart=on-failure

        [Install]
        WantedBy=multi-user.target
  module.run:
    - service.systemctl_reload: []
    - onchanges:
      - file: /etc/systemd/system/app.service
    - watch_in:
      - service: app
app:
  service.running:
    - enable: true

# TLS
/etc/ssl/web:
  file.directory:
    - user: root
    - group: root
    - mode: '0755'
/etc/ssl/web/ca.key:
  x509.private_key_managed:
    - algo: ec
/etc/ssl/web/ca.pem:
  x509.certificate_managed:
    - signing_private_key: /etc/ssl/web/ca.key
    - CN: Example CA
    - basicConstraints: critical, CA:true
    - days_valid: 3650
    - days_remaining: 30
/etc/ssl/web/site.key:
  x509.private_key_managed:
    - algo: ec
/etc/ssl/web/site.pem:
  x509.certificate_managed:
    - private_key: /etc/ssl/web/site.key
    - signing_private_key: /etc/ssl/web/ca.key
    - signing_cert: /etc/ssl/web/ca.pem
    - CN: {{ domain }}
    - subjectAltName: DNS:{{ domain }}
    - days_valid: 90
    - days_remaining: 30
    - watch_in:
      - service: nginx

# The web server
/etc/nginx/conf.d/site.conf:
  file.managed:
    - user: root
    - group: root
    - mode: '0644'
    - contents: |
        server {
            listen 443 ssl;
            server_name {{ domain }};
            ssl_certificate /etc/ssl/web/site.pem;
            ssl_certificate_key /etc/ssl/web/site.key;
            location / { proxy_pass http://127.0.0.1:8000; }
            location /static/ { alias /srv/www/; }
        }
    - watch_in:
      - service: nginx
/srv/www:
  file.directory:
    - user: root
    - group: root
    - mode: '0755'
/srv/www/robots.txt:
  file.managed:
    - user: root
    - group: root
    - mode: '0644'
    - contents: |
        User-agent: *
        Disallow:
nginx:
  service.running:
    - enable: true

# What keeps it running
/etc/systemd/system/app-check.service:
  file.managed:
    - mode: '0644'
    - contents: |
        [Service]
        Type=oneshot
        ExecStart=/usr/bin/systemctl is-active app.service
/etc/systemd/system/app-check.timer:
  file.managed:
    - mode: '0644'
    - contents: |
        [Timer]
        OnCalendar=hourly

        [Install]
        WantedBy=timers.target
  module.run:
    - service.systemctl_reload: []
    - onchanges:
      - file: /etc/systemd/system/app-check.service
      - file: /etc/systemd/system/app-check.timer
app-check.timer:
  service.running:
    - enable: true
pg_dump --file=/var/backups/app/app.sql app:
  cron.present:
    - identifier: backup
    - user: postgres
    - hour: 3
    - minute: 15
/var/backups/app:
  file.directory:
    - user: postgres
    - group: postgres
    - mode: '0750'
wait for the application:
  cmd.run:
    - name: timeout 20 sh -c 'until curl -so /dev/null 127.0.0.1:8000; do sleep 0.5; done'
    - onchanges:
      - service: app
wait for the site:
  cmd.run:
    - name: timeout 20 sh -c 'until curl -sko /dev/null https://127.0.0.1; do sleep 0.5; done'
    - onchanges:
      - service: nginx
