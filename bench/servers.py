# SPDX-License-Identifier: Apache-2.0
"""The measured servers: how each is started, and how it reports its address."""
import contextlib
import dataclasses
import pathlib
import socket
import tempfile
import typing

import certificates
from tools import LOOPS, keep_to, spawn, wait_for_log

SUBJECT = "snowflaked"
BARE = "epoll-fixed"
# The same server with 2^22 IDs per millisecond, so that the layout is not the limit.
SUBJECT_WIDE = "snowflaked-wide"
WIDE_LAYOUT = ("epoch_ms=1288834974657,tick_ms=1,time_bits=41,datacenter_bits=0,worker_bits=0,"
               "sequence_bits=22")
# The same server with every ID in an audit log.
SUBJECT_AUDITED = "snowflaked-audited"
# A second server, with another worker ID.
SUBJECT_SECOND = "snowflaked-second"
# The same server, whose metrics are requested as by Prometheus.
SUBJECT_SCRAPED = "snowflaked-scraped"
# The same server on a local socket, and the bare server on one.
SUBJECT_LOCAL = "snowflaked-local"
BARE_LOCAL = "epoll-fixed-local"
# The same program as a relay for another server.
SUBJECT_RELAY = "snowflaked-relay"
# The same server with TLS, and with client certificates; and nginx likewise, with this many worker
# processes.
SUBJECT_TLS = "snowflaked-tls"
SUBJECT_MUTUAL = "snowflaked-mutual-tls"
NGINX = "nginx"
NGINX_TWO = "nginx-2-workers"
NGINX_MUTUAL = "nginx-mutual-tls"

START_LIMIT_S = 20
MAX_CONNECTIONS = 11000

PORT_LINE = rb"^(\d+|unix:.+)\n"
LISTENING = (rb"event=listening address=(?:(?:tls:)?127\.0\.0\.1:(?=\d)|(?=unix:))(\S+)\n"
             rb"(?:.*\n)*?.* event=ready ")


@dataclasses.dataclass(frozen=True)
class Place:
    """The environment of a server: the build, its own directory, and a free port."""
    build: pathlib.Path
    directory: pathlib.Path
    port: int
    upstream: str = ""  # HOST:PORT of the server whose IDs a relay hands out


@dataclasses.dataclass(frozen=True)
class Server:
    command: typing.Callable  # takes a Place, returns the command line
    # log text when it listens; contains its port if that is not the Place's
    listens: bytes
    what: str
    call: str = "get_id"
    warmup_s: float = 0.5
    # owners of the certificates that it needs in its directory (certificates.py), itself first
    tls: tuple = ()


def _snowflaked(*more):
    return lambda place: snowflaked_at("127.0.0.1:0", place, *more)


def snowflaked_at(address, place, *more):
    return [place.build / "server" / "snowflaked", "--listen", address,
            "--state-directory", place.directory, "--threads", str(LOOPS),
            "--max-connections", str(MAX_CONNECTIONS), *more]


def _snowflaked_local(place):
    return snowflaked_at(f"unix:{place.directory / 'socket'}", place)


def _relay(place):
    return [place.build / "server" / "snowflaked", "--listen", "127.0.0.1:0", "--relay",
            place.upstream, "--threads", str(LOOPS), "--max-connections", str(MAX_CONNECTIONS)]


def audit_file(directory):
    return directory / "audit"


def _audited(place):
    return [*_snowflaked()(place), "--audit-log", f"file:{audit_file(place.directory)}"]


def _scraped(place):
    return [*_snowflaked()(place), "--admin-listen", f"127.0.0.1:{place.port}"]


def _tls(place):
    return [*snowflaked_at("tls:127.0.0.1:0", place),
            *certificates.options(place.directory, certificates.SERVER)]


def _mutual(place):
    return [*_tls(place), "--tls-client-ca",
            certificates.certificate(place.directory, certificates.CLIENT)]


NGINX_CONFIGURATION = """
daemon off;
worker_processes {workers};
pid {directory}/pid;
error_log stderr notice;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path {directory};
    proxy_temp_path {directory};
    fastcgi_temp_path {directory};
    uwsgi_temp_path {directory};
    scgi_temp_path {directory};
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache off;
    ssl_session_tickets off;
    ssl_conf_command NumTickets 0;
    {more}
    server {{
        listen 127.0.0.1:{port} ssl;
        return 204;
    }}
}}
"""


def _nginx(workers, with_clients=False):
    def command(place):
        client = certificates.certificate(place.directory, certificates.CLIENT)
        more = f"ssl_client_certificate {client}; ssl_verify_client on;" if with_clients else ""
        file = place.directory / "nginx.conf"
        file.write_text(NGINX_CONFIGURATION.format(
            workers=workers, directory=place.directory, port=place.port, more=more,
            connections=MAX_CONNECTIONS, certificate=certificates.certificate(place.directory),
            key=certificates.key(place.directory)))
        return ["nginx", "-p", place.directory, "-c", file, "-e", "stderr"]
    return command


NGINX_STARTED = rb"start worker process \d+"


def _peer(name, *more):
    return lambda place: [place.build / "bench" / "peers" / name, *more]


def _bare_local(place):
    return [*_peer(BARE, "--threads", str(LOOPS))(place), "--unix", place.directory / "socket"]


def _java(name):
    return lambda place: ["java", "-jar", place.build / "bench" / "peers" / f"{name}.jar"]


def _redis(place):
    return ["redis-server", "--bind", "127.0.0.1", "--port", str(place.port), "--save", "",
            "--appendonly", "no", "--dir", place.directory]


SERVERS = {
    SUBJECT: Server(_snowflaked(), LISTENING, "this server"),
    BARE: Server(_peer(BARE, "--threads", str(LOOPS)), PORT_LINE,
                 "a bare epoll loop with a fixed reply: the limit of the machine"),
    "redis": Server(_redis, rb"Ready to accept connections", "Redis, by INCR, no persistence",
                    call="redis-incr"),
    "thrift-nonblocking": Server(_peer("thrift-nonblocking"), PORT_LINE,
                                 "Thrift's C++ TNonblockingServer, with the original algorithm"),
    "thrift-threaded": Server(_peer("thrift-threaded"), PORT_LINE,
                              "Thrift's C++ TThreadedServer, with the original algorithm"),
    "thrift-hsha": Server(_java("thrift-hsha"), PORT_LINE,
                          "Thrift's Java THsHaServer, as in the original service",
                          warmup_s=2),  # for the just-in-time compiler
    SUBJECT_WIDE: Server(_snowflaked("--layout", WIDE_LAYOUT), LISTENING,
                         "snowflaked, with a layout of 22 sequence bits"),
    SUBJECT_AUDITED: Server(_audited, LISTENING, "snowflaked, with an audit log in a file"),
    SUBJECT_SECOND: Server(_snowflaked("--worker-id", "1"), LISTENING,
                           "snowflaked, next to another one"),
    SUBJECT_SCRAPED: Server(_scraped, LISTENING, "snowflaked, with a scrape a second"),
    SUBJECT_LOCAL: Server(_snowflaked_local, LISTENING, "snowflaked, on a local socket"),
    BARE_LOCAL: Server(_bare_local, PORT_LINE, "epoll-fixed, on a local socket"),
    SUBJECT_RELAY: Server(_relay, LISTENING, "snowflaked, as a relay of another"),
    SUBJECT_TLS: Server(_tls, LISTENING, "snowflaked, with TLS", tls=(certificates.SERVER,)),
    SUBJECT_MUTUAL: Server(_mutual, LISTENING, "snowflaked, with TLS in which clients show "
                           "certificates", tls=(certificates.SERVER, certificates.CLIENT)),
    NGINX: Server(_nginx(1), NGINX_STARTED, "nginx with TLS, one worker process",
                  tls=(certificates.SERVER,)),
    NGINX_TWO: Server(_nginx(2), NGINX_STARTED, "nginx with TLS, two worker processes",
                      tls=(certificates.SERVER,)),
    NGINX_MUTUAL: Server(_nginx(1, True), NGINX_STARTED, "nginx with TLS in which clients show "
                         "certificates, one worker process",
                         tls=(certificates.SERVER, certificates.CLIENT)),
}
THRIFT = [name for name in SERVERS if name.startswith("thrift-")]
VARIANTS = [SUBJECT_WIDE, SUBJECT_AUDITED, SUBJECT_SCRAPED, SUBJECT_SECOND, SUBJECT_LOCAL,
            BARE_LOCAL, SUBJECT_RELAY, SUBJECT_TLS, SUBJECT_MUTUAL, NGINX, NGINX_TWO, NGINX_MUTUAL]
CHOICES = [name for name in SERVERS if name not in VARIANTS]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(name, build, cores=(), upstream=""):
    """Runs a server in its own directory, on these cores if there are any. Yields its process, its
    port (or unix:PATH) and the directory."""
    with tempfile.TemporaryDirectory(prefix="snowflake-bench-") as directory:
        place = Place(build, pathlib.Path(directory), free_port(), upstream)
        log = place.directory / "log"
        for whose in SERVERS[name].tls:
            certificates.make(place.directory, whose)
        with spawn(keep_to(cores, SERVERS[name].command(place)), log) as process:
            found = wait_for_log(name, process, log, SERVERS[name].listens, START_LIMIT_S)
            told = found[1].decode() if found.groups() else str(place.port)
            yield process, int(told) if told.isdigit() else told, place.directory
