#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls a server with every official client, and prints docs/reference/libraries.md.

    client_table.py          prints it
    client_table.py --write  writes it there
"""
import argparse
import contextlib
import os
import pathlib
import re
import signal
import tempfile

import official
from bindings import IDL_2010, IDL_LATER, ROOT, generate
from harness import Server, wait_for
from wire import STRICT

CLOSE_WAIT = "08"  # a state in /proc/net/tcp
DOCUMENT = ROOT / "docs" / "reference" / "libraries.md"
CONTRACTS = {IDL_2010: "2010", IDL_LATER: "now"}
BAD_AGENT, BAD_COUNT, UNKNOWN = ("get_id", "1bad", 1), ("get_ids", "good", 0), ("get_later",)

REMARKS = {
    "Node": "`Int64` holds an ID, and its `toString()` loses digits: "
            "``BigInt(`0x${id.toOctetString()}`)``",
    "Java": "older than Debian's compiler (0.17), which generates its code",
    "Ruby": "older than Debian's compiler (0.17), which generates its code",
    "PHP": "the autoloader must map `Thrift\\` to `/usr/lib/php`; "
           "`extension=thrift_protocol.so` is for 8.2, but the package configures 8.1; local "
           "socket: `TSocket::setHandle()`",
    "Perl": "no compact protocol. An IDL that includes another needs a `namespace perl`",
    "C": "local socket: a connected descriptor. A typed exception is in its argument; the `GError` "
         "contains only its name",
}
# Languages of Thrift's compiler for which Debian has no library.
WITHOUT_LIBRARY = {"D": "d", "Erlang": "erl", "Lua": "lua", "Rust": "rs"}
WITHOUT_TLS = ("PHP",)
NOT_SPOKEN = {"THeader": ("header", "header"), "JSON": ("unframed", "json"),
              "HTTP": ("http", "strict"), "zlib": ("zlib", "strict")}
OTHERS = (official.PYTHON, official.GO, official.JAVA)  # clients that have them
LACKS = {("THeader", "Java"): "not in the library"}

TEXT = """# Official Thrift libraries

This page is for developers who use generated Thrift code. It shows which protocols and sockets each
official library supports, which errors it raises, and what it does when the server restarts. For
the calls themselves, see [thrift.md](thrift.md).

`tests/integration/client_table.py --write` generates this page from test results. The libraries are
those in Debian 12, except Node's, which is from npm. Each was tested with code generated from
`snowflake.thrift` and from the original contract, framed and unframed, with each protocol in the
table. The tests make every call in the contract and cause every exception. The last two sections
use code generated from `snowflake.thrift`. The restart was tested framed, with the strict protocol.

## Libraries

{libraries}

* TLS was tested framed, with the strict protocol, with a client certificate, and against a server
  whose CA the client does not know.
* "strict" and "unversioned" are the binary protocol with and without a version number. Legacy
  clients send it without.

Thrift's compiler also generates code for the following languages, but Debian 12 does not package
the library that the code needs:

{missing}

`apt-cache search thrift` lists the following packages from Apache Thrift: golang-thrift-dev,
libthrift-0.17.0, libthrift-c-glib-dev, libthrift-c-glib0, libthrift-dev, libthrift-java,
libthrift-perl, php-thrift, python3-thrift, ruby-thrift and thrift-compiler.

## Errors

In this table, "..." is the server's message. The calls of `SnowflakeExtended` raise typed
exceptions in every language: `InvalidSystemClock`, `InvalidUserAgentError`, `WorkerIdUnavailable`,
`InvalidCount`, `RegistryUnavailable` and `UnsupportedLayout`. The four original calls do not
declare exceptions. They raise Thrift's application exception, with a message that begins with the
name of the error. "2010" is the original contract, and "now" is `snowflake.thrift`.

{errors}

## When the server restarts

In this test, a client is connected when the server stops. After the restart, it makes two calls
with the same client object. The table shows the exceptions that they raise. In all languages, a new
connection works at once.

{restarts}

No library reconnects by itself. After any error that was not sent by the server, open a new
connection. In C, ignore SIGPIPE. In Node, a pending call never fails but waits forever, so listen
for the connection's `close` event, as the test client does.

## Unsupported transports and protocols

The server closes such connections at once and logs the reason (`event=connection-closed`).

{others}
"""


def cell(text):
    return f"`{text}`".replace("|", "\\|")


def table(*rows):
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(re.sub(r"\|  +(?=\|)", "| ", f"| {' | '.join(row)} |") for row in rows)


@contextlib.contextmanager
def server(listen="127.0.0.1:0", state=None):
    with tempfile.TemporaryDirectory() as directory:
        started = Server("--state-directory", state or directory, listen=listen)
        try:
            yield started.wait_ready()
        finally:
            if problem := started.check():
                raise AssertionError(problem)


def said_by(session, *call):
    """Returns the result of a call, in the client's words."""
    try:
        session.call(*call)
    except official.ClientError as error:
        return cell(error)
    except official.Ended as ended:
        return f"the process ends, {signal.Signals(-ended.status).name}"
    return "is answered"


def name_of(said):
    """Returns the name of an error without its text, which depends on when a client detects the
    end."""
    return re.sub(r"^`([^:`]*):.*", r"`\1`", said)


def package_of(language):
    package = language[IDL_LATER].package
    if language is official.NODE:
        return f"{package} {official.node_version()} (npm)"
    return f"{package} {official.version_of(package)}"


def tls(client):
    if client in official.TLS:
        return "yes"
    return ("no TLS socket in the package" if client.language in WITHOUT_TLS
            else "contains a TLS socket, not tested")


def libraries():
    rows = [["Language", "Package", "Protocols", "Local socket", "TLS", "Remarks"]]
    for language in official.LANGUAGES:
        client = language[IDL_LATER]
        protocols = [f"{protocol.removesuffix('-accelerated')} by its C extension"
                     if protocol.endswith("-accelerated") else protocol
                     for protocol in client.protocols]
        rows.append([client.language, package_of(language), ", ".join(protocols),
                     "yes" if client.has_local else "no",
                     tls(client), REMARKS.get(client.language, "")])
    return table(*rows)


def missing():
    rows = [["Language", "Code from both contracts", "Library in Debian 12"]]
    for language, generator in WITHOUT_LIBRARY.items():
        for contract in CONTRACTS:
            generate(generator, contract)
        rows.append([language, f"`thrift --gen {generator}` generates it", "none"])
    return table(*rows)


def errors(address, words):
    """Returns the errors of the clients. `words`: the server's texts, by call."""
    rows = [["Language", "Contract", "`get_id` with a bad agent", "`get_ids` of 0 IDs",
             "a call that the server does not have"]]
    for language in official.LANGUAGES:
        for contract, name in CONTRACTS.items():
            client = language[contract]
            calls = (BAD_AGENT, BAD_COUNT, UNKNOWN) if contract == IDL_LATER else (BAD_AGENT,)
            with client.session(address, client.forms[0]) as session:
                found = [said_by(session, *call).replace(words.get(call, "\n"), "...")
                         for call in calls]
            rows.append([client.language, name, *found, *[""] * (3 - len(found))])
    return table(*rows)


def words_of(started):
    """Returns the server's long texts for these calls."""
    with started.connect() as connection:
        agent = connection.call(STRICT, *BAD_AGENT[:2]).value.message
        return {BAD_AGENT: agent.partition(": ")[2],
                BAD_COUNT: connection.call(STRICT, *BAD_COUNT).value.count_error.message}


def knows_of_the_end(process_id, port):
    """Whether the process has handled all closed connections: none of its connections to the port
    is half closed."""
    inodes = set()
    for descriptor in pathlib.Path(f"/proc/{process_id}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        remote, state = fields[2:4]
        if fields[9] in inodes and state == CLOSE_WAIT and remote.endswith(f":{port:04X}"):
            return False
    return True


def restarts():
    rows = [["Language", "The next call", "The one after it"]]
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory())
        sessions = []
        with server(state=state) as first:
            address = first.address
            for client in official.LATER:
                session = stack.enter_context(client.session(address, client.forms[0]))
                session.call("get_id", "a", 1)
                sessions.append((client, session))
        with server("%s:%d" % address, state):
            for client, session in sessions:
                said = [name_of(said_by(session, "get_id", "a", 1))]
                wait_for(lambda: knows_of_the_end(session.process_id, address[1]))
                said.append(name_of(said_by(session, "get_id", "a", 1)))
                rows.append([client.language, *said])
                if not session.ended:
                    session.open(address, client.forms[0])
                    assert len(session.numbers("get_id", "a", 3)) == 3
    return table(*rows)


def others():
    rows = [["", *(language[IDL_LATER].language for language in OTHERS), "The log's reason"]]
    for name, (framing, protocol) in NOT_SPOKEN.items():
        with server() as started:
            row = [name]
            for language in OTHERS:
                client = language[IDL_LATER]
                if said := LACKS.get((name, client.language)):
                    row.append(said)
                    continue
                with client.session() as session:
                    session.open_as(started.address, framing, protocol)
                    said = said_by(session, "get_id", "a", 1)
                row.append(said.replace(str(started.address[1]), "PORT"))
            rows.append([*row, cell(started.wait_event("connection-closed").fields["reason"])])
    return table(*rows)


def document():
    with server() as started:
        said = errors(started.address, words_of(started))
    return TEXT.format(libraries=libraries(), missing=missing(), errors=said, restarts=restarts(),
                       others=others())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        DOCUMENT.write_text(document())
    else:
        print(document(), end="")


if __name__ == "__main__":
    main()
