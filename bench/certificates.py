# SPDX-License-Identifier: Apache-2.0
"""The certificates for measurements of servers with TLS and their clients: ECDSA on P-256,
self-signed, so that no time is spent on a chain."""
import ssl

from tools import Failure, run_to_its_end

SERVER, CLIENT = "server", "client"
_DAYS = 2


def certificate(directory, whose=SERVER):
    return directory / f"{whose}.pem"


def key(directory, whose=SERVER):
    return directory / f"{whose}.key"


def make(directory, whose=SERVER):
    """Makes a certificate for 127.0.0.1 and its key in the directory."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
               "-nodes", "-days", str(_DAYS), "-subj", f"/CN={whose}",
               "-addext", "subjectAltName=IP:127.0.0.1",
               "-keyout", key(directory, whose), "-out", certificate(directory, whose)]
    _, complaints = run_to_its_end(command)
    if not certificate(directory, whose).exists():
        raise Failure(f"openssl made no certificate: {complaints.strip()[-500:]}")


def options(directory, whose):
    """Returns the TLS options of snowflaked or snowflakectl. whose: the owner of the
    certificate."""
    return ["--tls-certificate", certificate(directory, whose), "--tls-key", key(directory, whose)]


def believing(directory):
    """Returns the ssl.SSLContext of a client in Python."""
    return ssl.create_default_context(cafile=certificate(directory))
