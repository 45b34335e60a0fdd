// Socket calls that the programs need, each a thin wrapper that copies errno at once. All sockets are made
// non-blocking and close-on-exec.
#pragma once

#include <cstddef>

#include "common/address.h"
#include "common/fd.h"
#include "common/result.h"

namespace dlb {

// Fixed socket buffers in bytes; 0 leaves the kernel's autotuning on.
struct SocketBuffers {
  std::size_t read_bytes = 0;
  std::size_t write_bytes = 0;
};

// A listening TCP or Unix stream socket. "Port in use" is an error (no SO_REUSEPORT). TCP_NODELAY and the
// buffers set here are inherited by accepted sockets.
Result<Fd> listen_on(const Address& address, int backlog, SocketBuffers buffers = {});

// Starts a connect. The fd is returned with `*in_progress` true (wait for EPOLLOUT, then take_socket_error)
// or false (connected already). TCP_NODELAY is set on TCP. `source`, when given, is the local address that it
// comes from; a source without a port gets one at the connect, so that all ports serve each destination.
Result<Fd> connect_start(const Address& address, bool* in_progress, SocketBuffers buffers = {},
                         const Address* source = nullptr);

// EMFILE, ENFILE, ENOBUFS, ENOMEM: we have run out of something, the peer has done nothing wrong.
bool is_descriptor_shortage(int err);

// Bytes that were written and that the peer has not acknowledged (SIOCOUTQ); 0 when the socket can't tell.
std::size_t unacknowledged_bytes(int fd);

// SO_ERROR: 0 when the connect succeeded, else its errno.
int take_socket_error(int fd);

// What a TCP client connection gets after accept: TCP_NODELAY, and TCP_NOTSENT_LOWAT when bytes > 0.
void set_no_delay(int fd);
void set_not_sent_low_watermark(int fd, std::size_t bytes);
void set_socket_buffers(int fd, SocketBuffers buffers);
// SO_OOBINLINE: urgent data are read in their place, like any other byte. Accepted sockets inherit it.
void set_urgent_inline(int fd);
// SO_LINGER {1,0}: the next close sends RST.
void set_reset_on_close(int fd);

Address local_address(int fd);
Address peer_address(int fd);

}  // namespace dlb
