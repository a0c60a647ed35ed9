# SPDX-License-Identifier: Apache-2.0
"""Certificate authorities and the certificates that they sign, made by openssl."""
import ssl
import subprocess
from typing import NamedTuple

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*command, at=None):
    clock = ("faketime", at) if at else ()
    done = subprocess.run([*clock, "openssl", *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"openssl {command} ended with {done.returncode}:\n{done.stderr}")


class Pair(NamedTuple):
    """The files of a certificate and its key."""
    certificate: str
    key: str


class Authority:
    def __init__(self, directory, name="ca"):
        self.directory = directory
        self.certificate = directory / f"{name}.pem"
        self._key = directory / f"{name}.key"
        _openssl("req", "-x509", *KEY, "-keyout", self._key, "-out", self.certificate, "-subj",
                 f"/CN={name}", "-days", 3650)

    def issue(self, name, *alternatives, days=90, at=None):
        """Signs a certificate for `name`, valid for `days` from `at` on ("2020-01-01"), or from now
        on."""
        pair = Pair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        request = self.directory / f"{name}.csr"
        extension = self.directory / f"{name}.extensions"
        extension.write_text("subjectAltName=" + ",".join(alternatives or (f"DNS:{name}",)))
        _openssl("req", *KEY, "-keyout", pair.key, "-out", request, "-subj", f"/CN={name}")
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
                 "-days", days, "-extfile", extension, "-out", pair.certificate, at=at)
        return pair

    def context(self, pair=None, most=None):
        """Returns the context of a client that trusts this authority. pair: its certificate, or
        None. most: its highest TLS version."""
        context = ssl.create_default_context(cafile=self.certificate)
        if pair:
            context.load_cert_chain(*pair)
        if most:
            context.maximum_version = most
        return context
