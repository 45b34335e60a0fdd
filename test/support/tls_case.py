"""The base of tests of a balancer with tls-listen."""

from lb_case import LbCase
from ports import free_port
from raw import RawClient
from tls import TlsClient, client_context, make_certificate


class TlsCase(LbCase):
    def tls_balancer(self, *backends, key="ec", **options):
        self.certificate, self.key = make_certificate(self.folder, key=key)
        self.tls_port = free_port()
        return self.balancer(*backends, tls_listen=f"127.0.0.1:{self.tls_port}", tls_cert=self.certificate,
                             tls_key=self.key, **options)

    def client(self, version=None, **options):
        return TlsClient(self.tls_port, options.pop("context", None) or client_context(version), **options)

    def raw(self, **options):
        """A TCP connection to the TLS port."""
        return RawClient(self.tls_port, **options)

    def tls(self, balancer):
        return balancer.metrics()["tls"]
