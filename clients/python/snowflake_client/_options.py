# SPDX-License-Identifier: Apache-2.0
"""The options of a client, checked."""
import os
import re
import socket
import ssl
import sys
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from .errors import InvalidAgentError

DEFAULT_SERVER = "127.0.0.1:7609"
SERVERS_VARIABLE = "SNOWFLAKE_SERVERS"
Servers = Union[str, Sequence[str], None]
_DEFAULT_PORT = 7609
_LONGEST = 3600.0
_SCHEMES = (("snowflake://", ""), ("snowflakes://", "tls:"))
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]"
                   r"|(?P<host>[^\[\]:/,\s]+))(?::(?P<port>\d{1,5}))?")


class Address(NamedTuple):
    """One of `servers`. A name has no `found` yet."""
    text: str
    is_tls: bool
    host: str
    port: int
    found: Tuple[Tuple[int, Any], ...]  # (family, socket address)

    @property
    def tls_name(self) -> str:
        """The name for SNI and the certificate: without the trailing dot, which only the resolver
        needs (RFC 6066), and without the zone."""
        return self.host.partition("%")[0].removesuffix(".")


class Options(NamedTuple):
    addresses: List[Address]
    agent: str
    timeout: float
    prefetch: float
    max_age: float
    tls: Optional[ssl.SSLContext]


def check_options(servers: Servers, agent: Optional[str], timeout: float, prefetch: float,
                  max_age: float, tls: Optional[ssl.SSLContext]) -> Options:
    """Raises ValueError."""
    texts = _split(os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVER if servers is None
                   else servers)
    if not texts:
        raise ValueError("servers is empty")
    addresses = [_parse(text) for text in dict.fromkeys(texts)]
    agent = _default_agent() if agent is None else agent
    if not isinstance(agent, str) or not re.fullmatch(r"[a-zA-Z][a-zA-Z\-0-9]{0,255}", agent):
        raise InvalidAgentError(f"agent {str(agent)[:40]!r} is not a letter and then letters, "
                                'digits and "-", at most 256 in total')
    check_seconds("timeout", timeout, 0.001)
    check_seconds("prefetch", prefetch, 0)
    check_seconds("max_age", max_age, max(0.001, 2 * prefetch), ", at least twice prefetch")
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise ValueError(f"tls {tls!r} is not an ssl.SSLContext")
    if tls is None and any(address.is_tls for address in addresses):
        tls = ssl.create_default_context()
    return Options(addresses, agent, timeout, prefetch, max_age, tls)


def check_seconds(name: str, value: float, least: float, more: str = "") -> float:
    if not isinstance(value, (int, float)) or not least <= value <= _LONGEST:
        raise ValueError(f"{name} {value!r} is not {least} to {_LONGEST:.0f} seconds{more}")
    return value


def check_count(count: int) -> int:
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"count {count!r} is not 1 or more")
    return count


def _default_agent() -> str:
    name = os.path.basename(sys.argv[0] if sys.argv else "").removesuffix(".py")
    name = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-0123456789")[:256]
    return name if name and name != "c" else "python"


def _split(servers: Union[str, Sequence[str]]) -> List[str]:
    """A string can be a list with commas, or snowflake://HOST:PORT,HOST:PORT."""
    if not isinstance(servers, str):
        return [text for each in servers for text in (_split(each) if "://" in each else [each])]
    for scheme, prefix in _SCHEMES:
        if servers.startswith(scheme):
            hosts = servers[len(scheme):].removesuffix("/").split(",")
            return [prefix + host for host in hosts]
    return [text.strip() for text in servers.split(",")]


def _parse(text: str) -> Address:
    if text.startswith("unix:"):
        path = text[len("unix:"):]
        if not re.fullmatch(r"[/@].+", path) or len(path.encode()) > 107:
            raise ValueError(f"server {text!r} is not unix:/PATH or unix:@NAME, at most 107 "
                             "bytes")
        path = "\0" + path[1:] if path[0] == "@" else path
        return Address(text, False, "", 0, ((socket.AF_UNIX, path),))
    match = _HOST.fullmatch(text.removeprefix("tls:"))
    port = int(match["port"] or _DEFAULT_PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise ValueError(f"server {text!r} is not HOST, HOST:PORT, [IPV6]:PORT, one of these after "
                         "tls:, or unix:/PATH")
    host = match["v6"] or match["host"]
    try:
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except UnicodeError:
        raise ValueError(f"server {text!r} is not a host name: each part between dots has 1 to 63 "
                         "characters") from None
    except socket.gaierror as error:
        if match["v6"]:
            raise ValueError(f"server {text!r}: no IPv6 address in brackets, or no such interface"
                             ) from error
        found = []
    return Address(text, text.startswith("tls:"), host, port,
                   tuple(dict.fromkeys((each[0], each[4]) for each in found)))
