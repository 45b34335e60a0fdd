// What must hold for every input of the PROXY header parser, for the fuzz harness and the corpus replay: no
// crash on buffers of exact size, the same verdict however the bytes are cut, nothing accepted over the
// bounds, and addresses that come out again after being written. A breach aborts.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "common/check.h"
#include "common/proxy_protocol.h"

namespace dlb::fuzz {

inline void check_proxy_header(std::string_view input) {
  if (input.size() > 2 * kMaxProxyHeaderBytes) return;
  const ProxyHeader whole = parse_proxy_header(input);
  if (whole.status == ProxyHeader::Status::Ok) {
    DLB_CHECK(whole.consumed > 0 && whole.consumed <= input.size() && whole.consumed <= kMaxProxyHeaderBytes);
    DLB_CHECK(whole.local == whole.source.empty() && whole.local == whole.destination.empty());
    DLB_CHECK(parse_proxy_header(input.substr(0, whole.consumed - 1)).status ==
              ProxyHeader::Status::NeedMore);
  } else if (whole.status == ProxyHeader::Status::Bad) {
    DLB_CHECK(!whole.reason.empty());
  } else {
    DLB_CHECK(input.size() < kMaxProxyHeaderBytes);
  }
  // Each beginning says NeedMore or what the whole says; once said, it stays.
  bool decided = false;
  const std::size_t step = input.size() <= 256 ? 1 : 97;
  for (std::size_t cut = 0; cut <= input.size(); cut += step) {
    const auto exact = std::make_unique<char[]>(cut);
    input.copy(exact.get(), cut);
    const ProxyHeader part = parse_proxy_header({exact.get(), cut});
    if (part.status == ProxyHeader::Status::NeedMore) {
      DLB_CHECK(!decided);
      continue;
    }
    decided = true;
    DLB_CHECK(part.status == whole.status && part.consumed == whole.consumed && part.reason == whole.reason);
    DLB_CHECK(part.source == whole.source && part.destination == whole.destination);
  }
  if (whole.status != ProxyHeader::Status::Ok || whole.local) return;
  std::array<char, kProxyV2WriteBytes> out;
  const std::size_t length = write_proxy_v2(whole.source, whole.destination, out);
  const ProxyHeader again = parse_proxy_header({out.data(), length});
  DLB_CHECK(again.status == ProxyHeader::Status::Ok && again.consumed == length);
  DLB_CHECK(again.source.host() == whole.source.host() && again.source.port() == whole.source.port());
  DLB_CHECK(again.destination.host() == whole.destination.host());
}

}  // namespace dlb::fuzz
