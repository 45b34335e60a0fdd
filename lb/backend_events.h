// BackendEvents: what the control thread tells the data path, and in an upgrade the main thread. An
// implementation passes it on by mailbox.
#pragma once

#include <cstdint>

namespace dlb::lb {

class BackendEvents {
 public:
  // `backend` can take requests that it could not take before (it came up, left its drain, is clear of its
  // memory guards): whoever waits for a slot should look again.
  virtual void on_capacity_change(std::uint32_t backend) = 0;
  // `backend` gets no new request (down, draining): its idle connections are to be closed.
  virtual void on_backend_out(std::uint32_t backend) = 0;
  // The balancer's own memory guard went on or off (the state itself is in MemoryState).
  virtual void on_memory_guard(bool shedding) = 0;

 protected:
  ~BackendEvents() = default;
};

}  // namespace dlb::lb
