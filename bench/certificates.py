# SPDX-License-Identifier: Apache-2.0
"""The certificates that servers with TLS and their clients are measured with: ECDSA on P-256, each
vouched for by itself alone, so that nobody spends time on a chain."""
import ssl

from tools import Failure, run_to_its_end

SERVER, CLIENT = "server", "client"
_DAYS = 2


def certificate(directory, whose=SERVER):
    return directory / f"{whose}.pem"


def key(directory, whose=SERVER):
    return directory / f"{whose}.key"


def make(directory, whose=SERVER):
    """A pair in the directory, of 127.0.0.1."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
               "-nodes", "-days", str(_DAYS), "-subj", f"/CN={whose}",
               "-addext", "subjectAltName=IP:127.0.0.1",
               "-keyout", key(directory, whose), "-out", certificate(directory, whose)]
    _, complaints = run_to_its_end(command)
    if not certificate(directory, whose).exists():
        raise Failure(f"openssl made no certificate: {complaints.strip()[-500:]}")


def options(directory, whose):
    """Of snowflaked or of snowflakectl, whose own certificate it is."""
    return ["--tls-certificate", certificate(directory, whose), "--tls-key", key(directory, whose)]


def believing(directory):
    """Of a client in Python: an ssl.SSLContext."""
    return ssl.create_default_context(cafile=certificate(directory))
