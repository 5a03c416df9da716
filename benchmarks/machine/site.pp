# The machine of `examples/webserver/site.yaml` for Puppet, with its own types and the modules that Debian packages.
$domain = 'www.example.org'
$title_text = 'Welcome'
$repository = 'git://127.0.0.1/app'
$openssl = '/usr/bin/openssl'
$ca = "-CA ca.pem -CAkey ca.key -CAcreateserial"

File { owner => 'root', group => 'root' }
Exec { path => '/usr/sbin:/usr/bin:/sbin:/bin' }

# The machine
file { '/etc/hostname': content => "web1\n" }
exec { 'hostname': command => 'hostname web1', unless => 'test "$(hostname)" = web1', provider => shell }
host { 'web1': ip => '127.0.1.1' }
file { '/etc/localtime': ensure => link, target => '/usr/share/zoneinfo/Etc/UTC' }
host { 'db.internal': ip => '127.0.0.1', comment => 'the database' }
sysctl::value { 'net.core.somaxconn': value => '1024' }
sysctl::value { 'net.ipv4.tcp_syncookies': value => '1' }

package { ['nginx', 'nginx-common', 'postgresql', 'python3-psycopg2', 'python3-cryptography', 'git', 'sudo', 'cron',
           'logrotate']: }

# People
group { 'admins': system => true }
user { ['alice', 'bob']: managehome => true, shell => '/bin/bash', groups => ['admins'] }
user { 'app': system => true, gid => 'app', home => '/srv/app', shell => '/usr/sbin/nologin' }
group { 'app': system => true }
ssh_authorized_key { 'alice@laptop':
  user => 'alice',
  type => 'ssh-ed25519',
  key  => 'AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1',
}
ssh_authorized_key { 'bob@laptop':
  user => 'bob',
  type => 'ssh-ed25519',
  key  => 'AAAAC3NzaC1lZDI1NTE5AAAAIJmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy2',
}
file { '/etc/sudoers.d/admins':
  content      => "%admins ALL=(root:root) NOPASSWD: /usr/bin/systemctl restart app.service\n",
  mode         => '0440',
  validate_cmd => '/usr/sbin/visudo -c -f %',
}

# The database
service { 'postgresql': ensure => running, enable => true, require => Package['postgresql'] }
Postgresql_psql {
  psql_user => 'postgres',
  psql_group => 'postgres',
  psql_path => '/usr/bin/psql',
  port => 5432,
  cwd => '/',
  require => Service['postgresql'],
}
postgresql_psql { 'CREATE ROLE app':
  unless => "SELECT 1 FROM pg_roles WHERE rolname = 'app'",
} -> postgresql_psql { 'ALTER ROLE app LOGIN NOSUPERUSER':
  unless => "SELECT 1 FROM pg_roles WHERE rolname = 'app' AND rolcanlogin AND NOT rolsuper",
} -> postgresql_psql { 'CREATE DATABASE app OWNER app':
  unless => "SELECT 1 FROM pg_database WHERE datname = 'app'",
} -> postgresql_psql { 'ALTER DATABASE app OWNER TO app':
  unless => "SELECT 1 FROM pg_database WHERE datname = 'app' AND pg_get_userbyid(datdba) = 'app'",
}

# The application
file { '/srv/app': ensure => directory, owner => 'app', group => 'app' }
-> vcsrepo { '/srv/app':
  ensure   => latest,
  provider => git,
  source   => $repository,
  revision => 'main',
  user     => 'app',
  require  => Package['git'],
  notify   => Service['app'],
}
file { '/etc/app': ensure => directory, mode => '0755' }
file { '/etc/app/app.ini': ensure => file, group => 'app', mode => '0640' }
Ini_setting { path => '/etc/app/app.ini', require => File['/etc/app/app.ini'], notify => Service['app'] }
ini_setting { 'listen': section => 'server', setting => 'listen', value => '127.0.0.1:8000' }
ini_setting { 'title': section => 'site', setting => 'title', value => $title_text }
ini_setting { 'dsn': section => 'database', setting => 'dsn', value => 'dbname=app' }
file { '/etc/systemd/system/app.service':
  content => @(UNIT),
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
    | UNIT
  notify  => Service['app'],
}
service { 'app':
  ensure => running,
  enable => true,
  require => [Package['python3-psycopg2'], Postgresql_psql['ALTER DATABASE app OWNER TO app']],
}
wait_for { 'the application':
  query     => 'bash -c "echo >/dev/tcp/127.0.0.1/8000"',
  exit_code => 0,
  polling_frequency => 0.5,
  max_retries => 40,
  refreshonly => true,
  subscribe => Service['app'],
}

# TLS
file { '/etc/ssl/web': ensure => directory, mode => '0755' }
file { ['/etc/ssl/web/ca.key', '/etc/ssl/web/site.key']: mode => '0600' }
file { ['/etc/ssl/web/ca.pem', '/etc/ssl/web/site.pem']: mode => '0644' }
Exec { cwd => '/etc/ssl/web' }
exec { 'ca.key':
  command => "${openssl} ecparam -genkey -name prime256v1 -noout -out ca.key",
  creates => '/etc/ssl/web/ca.key',
  require => File['/etc/ssl/web'],
} -> File['/etc/ssl/web/ca.key'] -> exec { 'ca.pem':
  command => "${openssl} req -x509 -new -key ca.key -subj '/CN=Example CA' -days 3650 -out ca.pem",
  unless  => "${openssl} x509 -checkend 2592000 -noout -in ca.pem",
} -> File['/etc/ssl/web/ca.pem'] -> exec { 'site.key':
  command => "${openssl} ecparam -genkey -name prime256v1 -noout -out site.key",
  creates => '/etc/ssl/web/site.key',
} -> File['/etc/ssl/web/site.key'] -> exec { 'site.pem':
  command  => "${openssl} req -new -key site.key -subj '/CN=${domain}' -addext 'subjectAltName=DNS:${domain}' |
    ${openssl} x509 -req ${ca} -days 90 -copy_extensions copy -out site.pem",
  unless   => "${openssl} x509 -checkend 2592000 -noout -in site.pem && ${openssl} verify -CAfile ca.pem site.pem",
  provider => shell,
} -> File['/etc/ssl/web/site.pem'] ~> Service['nginx']

# The web server
file { '/etc/nginx/conf.d/site.conf':
  mode    => '0644',
  content => @("CONF"),
    server {
        listen 443 ssl;
        server_name ${domain};
        ssl_certificate /etc/ssl/web/site.pem;
        ssl_certificate_key /etc/ssl/web/site.key;
        location / { proxy_pass http://127.0.0.1:8000; }
        location /static/ { alias /srv/www/; }
    }
    | CONF
  require => Package['nginx'],
  notify  => Service['nginx'],
}
file { '/srv/www': ensure => directory, mode => '0755' }
file { '/srv/www/robots.txt': content => "User-agent: *\nDisallow:\n", mode => '0644' }
service { 'nginx': ensure => running, enable => true, require => Package['nginx'] }
wait_for { 'the site':
  query     => 'bash -c "echo >/dev/tcp/127.0.0.1/443"',
  exit_code => 0,
  polling_frequency => 0.5,
  max_retries => 40,
  refreshonly => true,
  subscribe => Service['nginx'],
}

# What keeps it running
file { '/etc/systemd/system/app-check.service':
  content => "[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl is-active app.service\n",
}
file { '/etc/systemd/system/app-check.timer':
  content => "[Timer]\nOnCalendar=hourly\n\n[Install]\nWantedBy=timers.target\n",
  notify  => Service['app-check.timer'],
}
service { 'app-check.timer':
  ensure => running,
  enable => true,
  require => File['/etc/systemd/system/app-check.service'],
}
cron { 'backup':
  user    => 'postgres',
  command => 'pg_dump --file=/var/backups/app/app.sql app',
  hour    => 3,
  minute  => 15,
  require => Package['postgresql', 'cron'],
}
file { '/var/backups/app':
  ensure => directory,
  owner => 'postgres',
  group => 'postgres',
  mode => '0750',
  require => Package['postgresql'],
}
