#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls a server by every official client, and prints what docs/reference/libraries.md is to say.

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

CLOSE_WAIT = "08"  # of /proc/net/tcp
DOCUMENT = ROOT / "docs" / "reference" / "libraries.md"
CONTRACTS = {IDL_2010: "2010", IDL_LATER: "now"}
BAD_AGENT, BAD_COUNT, UNKNOWN = ("get_id", "1bad", 1), ("get_ids", "good", 0), ("get_later",)

REMARKS = {
    "Node": "`Int64` holds an ID, and its `toString()` loses digits: "
            "``BigInt(`0x${id.toOctetString()}`)``",
    "Java": "older than Debian's compiler (0.17), whose code it runs",
    "Ruby": "older than Debian's compiler (0.17), whose code it runs",
    "PHP": "`Thrift\\` is `/usr/lib/php` itself, which an autoloader has to be told; "
           "`extension=thrift_protocol.so` is for 8.2, the package configures 8.1; a local socket "
           "by `TSocket::setHandle()`",
    "Perl": "no compact protocol. An IDL that includes another needs a `namespace perl`",
    "C": "a local socket by a descriptor that is connected. A typed exception is in its argument, "
         "the `GError` has its name only",
}
# What Thrift's compiler knows, and Debian has no library for.
WITHOUT_LIBRARY = {"D": "d", "Erlang": "erl", "Lua": "lua", "Rust": "rs"}
WITHOUT_TLS = ("PHP",)
NOT_SPOKEN = {"THeader": ("header", "header"), "JSON": ("unframed", "json"),
              "HTTP": ("http", "strict"), "zlib": ("zlib", "strict")}
OTHERS = (official.PYTHON, official.GO, official.JAVA)  # which have those
LACKS = {("THeader", "Java"): "does not have it"}

TEXT = """# Official Thrift clients

What follows was seen by the tests (`tests/integration/client_table.py --write` wrote it): each
library, as Debian 12 has it (Node's from npm), against a server of this tree. Each was tried with
code from `snowflake.thrift` and with code from the contract of 2010, framed and unframed, in every
protocol that the table names: every call of its contract, and each exception. The last two sections
are of code from `snowflake.thrift`; that a server starts again was tried framed and strict.

## Libraries

{libraries}

TLS was tried framed and strict, with a certificate of the client, and against a server that it does
not believe.

"unversioned" is the binary protocol without its version, as clients of 2010 write it. Thrift's
compiler makes code for these too, but Debian 12 has no package of the library that it needs:

{missing}

Of Apache Thrift, `apt-cache search thrift` names golang-thrift-dev, libthrift-0.17.0,
libthrift-c-glib-dev, libthrift-c-glib0, libthrift-dev, libthrift-java, libthrift-perl, php-thrift,
python3-thrift, ruby-thrift and thrift-compiler.

## Errors

The server's own words are "..." here. With `snowflake.thrift` the calls that are not of 2010 throw
typed exceptions, in every language: `InvalidSystemClock`, `InvalidUserAgentError`,
`WorkerIdUnavailable`, `InvalidCount`, `RegistryUnavailable` and `UnsupportedLayout`. The four calls
of 2010 have none in their contract, and their errors are Thrift's application exception, whose
message begins with the name.

{errors}

## A server that starts again

What a client throws that was connected when the server ended, and calls when it is back: at the
next call, and at the one after it, on the same client. A new connection works at once in all of
them.

{restarts}

So none connects again by itself: open a new connection after any error that the server did not
send. A program in C ignores SIGPIPE. In Node a call hears nothing of it, and waits for ever: the
client of the tests listens to the connection's event `close`.

## What is not spoken

The server closes such a connection at once, and its log says why (`event=connection-closed`).

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
    """What a call came to, in the client's words."""
    try:
        session.call(*call)
    except official.ClientError as error:
        return cell(error)
    except official.Ended as ended:
        return f"the process ends, {signal.Signals(-ended.status).name}"
    return "is answered"


def name_of(said):
    """Without the text, which depends on when a client hears of the end."""
    return re.sub(r"^`([^:`]*):.*", r"`\1`", said)


def package_of(language):
    package = language[IDL_LATER].package
    if language is official.NODE:
        return f"{package} {official.node_version()} (npm)"
    return f"{package} {official.version_of(package)}"


def tls(client):
    if client in official.TLS:
        return "yes"
    return ("no socket for it in the package" if client.language in WITHOUT_TLS
            else "has a socket for it, which was not tried")


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
        rows.append([language, f"`thrift --gen {generator}` makes it", "none"])
    return table(*rows)


def errors(address, words):
    """`words`: of the server, by call."""
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
    """What the server says to each of those calls, where it is long."""
    with started.connect() as connection:
        agent = connection.call(STRICT, *BAD_AGENT[:2]).value.message
        return {BAD_AGENT: agent.partition(": ")[2],
                BAD_COUNT: connection.call(STRICT, *BAD_COUNT).value.count_error.message}


def knows_of_the_end(process_id, port):
    """Whether the kernel has told the process all there is to tell: none of its connections to the
    port is half closed."""
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
