"""TLS for tests: self-signed certificates, and a raw client over TLS that tells a clean end (close_notify) from a
connection that just broke off."""

import os
import ssl
import subprocess

from raw import RawClient

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def make_certificate(folder, name="server", days=30, key="ec"):
    """NAME.crt and NAME.key in `folder`; returns both paths."""
    certificate, private = os.path.join(folder, name + ".crt"), os.path.join(folder, name + ".key")
    kind = ["-newkey", "rsa:2048"] if key == "rsa" else ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run(["openssl", "req", "-x509", "-nodes", *kind, "-days", str(days), "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", private, "-out", certificate],
                   check=True, capture_output=True)
    os.chmod(private, 0o600)
    return certificate, private


def client_context(version=None, protocols=(), ciphers=None):
    """Takes any certificate. `version` is the only one offered."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        if version < ssl.TLSVersion.TLSv1_2:
            context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if ciphers:
        context.set_ciphers(ciphers)
    return context


class TlsClient(RawClient):
    """.clean tells, at the end, whether the peer said that it was one."""

    def __init__(self, port, context=None, session=None, **options):
        super().__init__(port, **options)
        self.clean = False
        try:
            self.sock = (context or client_context()).wrap_socket(self.sock, server_hostname="localhost", session=session,
                                                                  suppress_ragged_eofs=False)
        except BaseException:
            self.sock.close()
            raise

    def fill(self):
        if self.eof:
            return False
        try:
            more = super().fill()
            self.clean = not more and not self.was_reset
            return more
        except ssl.SSLEOFError:
            self.eof = True
            return False

    def certificate(self):
        """DER of what the server presented."""
        return self.sock.getpeercert(binary_form=True)

    def close_notify(self):
        """Our end, and the peer's."""
        self.sock.unwrap()


class ClientBytes:
    """A client's TLS without a socket: what it wants to say can be taken and sent as a test likes."""

    def __init__(self, context=None):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = (context or client_context()).wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def handshake(self, received=b""):
        """Takes what came and returns what is to be sent now; .done says whether that was all."""
        if received:
            self.incoming.write(received)
        try:
            self.tls.do_handshake()
            self.done = True
        except ssl.SSLWantReadError:
            self.done = False
        return self.outgoing.read()

    def seal(self, plain):
        self.tls.write(plain)
        return self.outgoing.read()
