#include "lb/head_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace dlb::lb {
namespace {

// What we may add to a head: our own fields with bounded values.
constexpr std::size_t kRequestAdditions = 512;
constexpr std::size_t kResponseAdditions = 384;

// Appends to a buffer's free space; a piece that doesn't fit makes the whole head fail.
class Writer {
 public:
  explicit Writer(Buffer& out) : out_(out), at_(out.writable().data()), end_(at_ + out.writable().size()) {}

  Writer& operator<<(std::string_view text) {
    if (static_cast<std::size_t>(end_ - at_) < text.size()) {
      fits_ = false;
    } else if (!text.empty()) {  // whose data() may be null
      std::memcpy(at_, text.data(), text.size());
      at_ += text.size();
    }
    return *this;
  }
  Writer& operator<<(std::uint64_t number) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
  }
  void field(const HeaderField& one) { *this << one.name << ": " << one.value << "\r\n"; }

  bool finish() {
    if (fits_) out_.commit(static_cast<std::size_t>(at_ - out_.writable().data()));
    return fits_;
  }

 private:
  Buffer& out_;
  char* at_;
  char* end_;
  bool fits_ = true;
};

void write_framing(Writer& out, BodyFraming framing, std::uint64_t length) {
  if (framing == BodyFraming::Length) out << "Content-Length: " << length << "\r\n";
  if (framing == BodyFraming::Chunked) out << "Transfer-Encoding: chunked\r\n";
}

void write_connection(Writer& out, bool keep_alive, bool http10_client) {
  if (!keep_alive) {
    out << "Connection: close\r\n";
  } else if (http10_client) {
    out << "Connection: keep-alive\r\n";
  }
}

std::size_t bytes_of(const HeaderFields& fields) {
  std::size_t total = 0;
  for (const HeaderField& one : fields.all()) total += one.name.size() + one.value.size() + 4;
  return total;
}

void write_status_line(Writer& out, int status, std::string_view reason) {
  out << "HTTP/1.1 " << static_cast<std::uint64_t>(status) << " " << reason << "\r\n";
}

}  // namespace

bool sane_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
    return c > 0x20 && c < 0x7f && c != '"' && c != ',' && c != '\\' && c != ';';
  });
}

std::size_t format_score(float score, std::array<char, 16>& out) {
  const auto tenths = static_cast<std::uint64_t>(std::lround(std::clamp(score, 0.0F, 10'000.0F) * 10.0F));
  char* at = std::to_chars(out.data(), out.data() + out.size() - 2, tenths / 10).ptr;
  *at++ = '.';
  *at++ = static_cast<char>('0' + tenths % 10);
  return static_cast<std::size_t>(at - out.data());
}

std::size_t request_head_bound(const RequestHead& head) {
  return head.method_text.size() + head.target.size() + head.authority.size() + bytes_of(head.fields) +
         kRequestAdditions;
}

bool write_request_head(const RequestHead& head, const ForwardContext& context, Buffer& out) {
  Writer w(out);
  w << head.method_text << " ";
  if (head.absolute_form) {
    w << head.path;
    if (!head.query.empty()) w << "?" << head.query;
  } else {
    w << head.target;
  }
  // HTTP/1.0 may come without a host; a backend's parser wants one.
  const std::string_view host = head.authority.empty() ? std::string_view("localhost") : head.authority;
  w << " HTTP/1.1\r\nHost: " << host << "\r\n";

  std::string_view forwarded_for;
  bool request_id_kept = false;
  bool forwarded_proto_kept = false;
  bool forwarded_host_kept = false;
  for (const HeaderField& one : head.fields.all()) {
    if (one.hop_by_hop) continue;
    switch (one.id) {
      case HeaderId::Host:
      case HeaderId::ContentLength:
      case HeaderId::TransferEncoding:
        continue;
      case HeaderId::Expect:
        if (!context.forward_expect) continue;
        break;
      case HeaderId::XForwardedFor:
        if (context.trusted_peer) {
          if (!forwarded_for.empty()) w << "X-Forwarded-For: " << forwarded_for << "\r\n";
          forwarded_for = one.value;
        }
        continue;
      case HeaderId::XForwardedProto:
        if (!context.trusted_peer) continue;
        forwarded_proto_kept = true;
        break;
      case HeaderId::XForwardedHost:
        if (!context.trusted_peer) continue;
        forwarded_host_kept = true;
        break;
      case HeaderId::XRequestId:
        if (request_id_kept || !sane_request_id(one.value)) continue;
        request_id_kept = true;
        break;
      default:
        break;
    }
    w.field(one);
  }

  w << "X-Forwarded-For: ";
  if (!forwarded_for.empty()) w << forwarded_for << ", ";
  w << context.client_host << "\r\n";
  if (!forwarded_proto_kept) w << "X-Forwarded-Proto: " << context.proto << "\r\n";
  if (!forwarded_host_kept && !head.authority.empty()) w << "X-Forwarded-Host: " << head.authority << "\r\n";
  if (!request_id_kept) w << "X-Request-Id: " << context.request_id << "\r\n";
  write_framing(w, head.framing, head.content_length);
  if (!context.upgrade.empty()) w << "Connection: upgrade\r\nUpgrade: " << context.upgrade << "\r\n";
  w << "\r\n";
  return w.finish();
}

std::size_t response_head_bound(const ResponseHead& head, std::string_view backend_id) {
  return head.reason.size() + bytes_of(head.fields) + backend_id.size() + kResponseAdditions;
}

bool write_response_head(const ResponseHead& head, const ResponseContext& context, Buffer& out) {
  Writer w(out);
  write_status_line(w, head.status, head.reason);
  bool chunked_field = false;
  for (const HeaderField& one : head.fields.all()) {
    switch (one.id) {
      case HeaderId::TransferEncoding:
        chunked_field = true;
        continue;
      case HeaderId::ContentLength:
      case HeaderId::LoadBalancerBackend:
      case HeaderId::LoadBalancerFallback:
      case HeaderId::LoadBalancerScore:
        continue;
      default:
        break;
    }
    if (!one.hop_by_hop || (context.upgraded && one.id == HeaderId::Upgrade)) w.field(one);
  }
  // A response without a body may still say how long one would be (HEAD, 304); 204 and 1xx may not.
  if (context.sink == BodyFraming::None && head.status >= 200 && head.status != 204) {
    if (head.has_content_length) {
      write_framing(w, BodyFraming::Length, head.content_length);
    } else if (chunked_field && context.head_request && head.status != 304 && !context.http10_client) {
      write_framing(w, BodyFraming::Chunked, 0);
    }
  } else {
    write_framing(w, context.sink, head.content_length);
  }
  w << "X-Load-Balancer-Backend: " << context.backend_id << "\r\nX-Load-Balancer-Score: ";
  std::array<char, 16> score;
  w << std::string_view(score.data(), format_score(context.score, score)) << "\r\n";
  if (context.fallback) w << "X-Load-Balancer-Fallback: threshold\r\n";
  if (context.upgraded) {
    w << "Connection: upgrade\r\n";
  } else {
    write_connection(w, context.keep_alive, context.http10_client);
  }
  w << "\r\n";
  return w.finish();
}

bool write_interim_head(const ResponseHead& head, Buffer& out) {
  Writer w(out);
  write_status_line(w, head.status, head.reason);
  for (const HeaderField& one : head.fields.all()) {
    if (!one.hop_by_hop && one.id != HeaderId::ContentLength && one.id != HeaderId::TransferEncoding)
      w.field(one);
  }
  w << "\r\n";
  return w.finish();
}

bool write_own_head(const OwnHead& head, Buffer& out) {
  Writer w(out);
  write_status_line(w, head.status, reason_phrase(head.status));
  w << "Content-Type: " << head.content_type << "\r\n";
  w << "Content-Length: " << head.content_length << "\r\n" << head.extra;
  write_connection(w, head.keep_alive, head.http10_client);
  w << "\r\n";
  return w.finish();
}

}  // namespace dlb::lb
