"""LB-29 with the case's own figures, all at once, in a minute: a download of 60 s and an upload at 20 kB/s finish, one byte a
second is cut by the default client-min-rate after its window. Run by `make soak`."""

import select
import time

from lb_case import LbCase, main
from raw import G
from scripted import OK
from waiting import pause


class SlowButSteady(LbCase):
    def test_lb_29_at_full_length(self):
        def download(connection, request):
            connection.body(request)
            if request.method == "POST":
                return connection.send(OK)
            connection.send("HTTP/1.1 200 OK|Content-Length: 600000||")
            for _ in range(600):
                connection.send(b"x" * 1000)
                pause(0.1)

        balancer = self.balancer(self.scripted(download), client_write_timeout="3s", client_body_timeout="3s",
                                 client_header_timeout="3s", client_idle_timeout="3s", backend_timeout="3s",
                                 backend_body_timeout="3s", backend_queue_timeout="3s", connect_timeout="3s")

        def upload(size, step):
            with balancer.client(timeout=90) as client:
                started = time.monotonic()
                client.send(f"POST / HTTP/1.1|Host: a|Content-Length: {size}||")
                for at in range(0, size, step):
                    try:
                        client.send(b"x" * step)
                    except OSError:
                        break
                    if select.select([client.sock], [], [], max(0, started + 1 + at // step - time.monotonic()))[0]:
                        break
                return client.read_response().status, time.monotonic() - started

        def served():
            with balancer.client(timeout=90) as client:
                return client.request(G).complete

        (cut, took), (fast, _), complete = self.together(lambda: upload(1000, 1), lambda: upload(1 << 20, 20480), served)
        self.assertEqual((cut, fast, complete), (408, 200, True))
        self.assertTrue(29.8 <= took <= 31, took)


if __name__ == "__main__":
    main()
