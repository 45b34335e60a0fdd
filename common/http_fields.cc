#include "common/http_fields.h"

#include <bit>

#include "common/http_syntax.h"

namespace dlb::http {
namespace {

constexpr std::uint32_t kMaxConnectionOptions = 32;  // each one is looked for among all fields

constexpr std::uint64_t bit_of(HeaderId id) { return std::uint64_t{1} << static_cast<unsigned>(id); }

constexpr std::uint64_t kHopByHop = bit_of(HeaderId::Connection) | bit_of(HeaderId::KeepAlive) |
                                    bit_of(HeaderId::ProxyConnection) | bit_of(HeaderId::Te) |
                                    bit_of(HeaderId::TransferEncoding) | bit_of(HeaderId::Upgrade);
constexpr bool always_hop_by_hop(HeaderId id) { return (kHopByHop & bit_of(id)) != 0; }

// A peer must not be able to have these removed by naming them in Connection.
bool is_protected(const HeaderField& field) {
  switch (field.id) {
    case HeaderId::Authorization:
    case HeaderId::ContentLength:
    case HeaderId::Cookie:
    case HeaderId::Forwarded:
    case HeaderId::Host:
    case HeaderId::XForwardedFor:
    case HeaderId::XForwardedHost:
    case HeaderId::XForwardedProto:
      return true;
    default:
      return field.name.size() > 12 && equals_ignoring_case(field.name.substr(0, 12), "x-forwarded-");
  }
}

// The first colon in [name, cr), or cr.
const char* find_colon(const char* name, const char* cr) {
#ifdef __SSE2__
  if (cr - name >= 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(name));
    const auto colons = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8(':'))));
    if (colons != 0) return name + std::countr_zero(colons);
    name += 16;
  }
#endif
  while (name < cr && *name != ':') ++name;
  return name;
}

// What is wrong with a field line whose name is no token.
Fault name_fault(const char* name) {
  const char* stop = name;
  while (has_class(*stop, kTokenChar)) ++stop;  // the line's CR at the latest
  if (stop == name) {
    if (*stop == ' ' || *stop == '\t') return {400, "folded header lines are not allowed"};
    return {400, *stop == ':' ? "a header field has an empty name" : "a header field name is malformed"};
  }
  if (*stop == ' ' || *stop == '\t') return {400, "white space before the colon of a header field"};
  return {400, *stop == '\r' ? "a header line has no colon" : "a header field name is malformed"};
}

Fault note_field(const HeaderField& field, HeadFacts& facts) {
  switch (field.id) {
    case HeaderId::Host:
      if (facts.hosts++ == 0) facts.host = field.value;
      break;
    case HeaderId::ContentLength: {
      const auto length = parse_content_length(field.value);
      if (!length) return {400, "Content-Length is not a plain decimal number in range"};
      if (++facts.content_lengths > 1) return {400, "more than one Content-Length"};
      facts.content_length = *length;
      break;
    }
    case HeaderId::TransferEncoding:
      ++facts.transfer_encodings;
      break;
    case HeaderId::Connection:
      if (equals_letters(field.value, "keep-alive")) {
        facts.connection_keep_alive = true;
      } else if (equals_letters(field.value, "close")) {
        facts.connection_close = true;
      } else {
        ++facts.connections;
      }
      break;
    case HeaderId::Expect:
      ++facts.expects;
      break;
    case HeaderId::Upgrade:
      facts.has_upgrade = true;
      break;
    default:
      break;
  }
  return {};
}

void mark_named(HeaderFields& fields, std::string_view name) {
  for (HeaderField& field : fields.all()) {
    if (!field.hop_by_hop && equals_ignoring_case(field.name, name) && !is_protected(field)) {
      field.hop_by_hop = true;
    }
  }
}

}  // namespace

Fault read_fields(std::string_view bytes, const LineEnds& lines, HeaderFields& fields, HeadFacts& facts) {
  if (lines.count > HeaderFields::kMaxFields + 1) return {431, "too many header fields"};
  for (std::size_t line = 1; line < lines.count; ++line) {
    const char* const name = bytes.data() + lines.at[line - 1] + 2;
    const char* const cr = bytes.data() + lines.at[line];
    const char* const colon = find_colon(name, cr);
    HeaderField field;
    field.name = {name, static_cast<std::size_t>(colon - name)};
    field.id = header_id(field.name);
    // A name that was recognised is a token.
    if (colon == cr || (field.id == HeaderId::Other && !is_token(field.name))) return name_fault(name);

    const char* value = colon + 1;
    while (*value == ' ' || *value == '\t') ++value;  // stops at the CR
    const char* last = cr;
    while (last > value && (last[-1] == ' ' || last[-1] == '\t')) --last;
    field.value = {value, static_cast<std::size_t>(last - value)};
    if (field.id != HeaderId::Other) {
      field.hop_by_hop = always_hop_by_hop(field.id);
      if (const Fault fault = note_field(field, facts)) return fault;
    }
    fields.add(field);  // there is room: the lines have been counted
  }
  return {};
}

Fault read_connection(HeaderFields& fields, ConnectionOptions& options) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const HeaderField field = fields.all()[i];
    if (field.id != HeaderId::Connection) continue;
    for_each_element(field.value, [&](std::string_view option) {
      if (equals_letters(option, "close")) {
        options.close = true;
      } else if (equals_letters(option, "keep-alive")) {
        options.keep_alive = true;
      } else if (equals_letters(option, "upgrade")) {
        options.upgrade = true;
      } else {
        mark_named(fields, option);
      }
      return ++count <= kMaxConnectionOptions;
    });
  }
  if (count > kMaxConnectionOptions) return {400, "too many connection options"};
  return {};
}

TransferCoding read_transfer_encoding(const HeaderFields& fields) {
  auto coding = TransferCoding::Malformed;  // for an empty list
  bool first = true;
  for (const HeaderField& field : fields.all()) {
    if (field.id != HeaderId::TransferEncoding) continue;
    for_each_element(field.value, [&](std::string_view element) {
      const bool chunked = equals_letters(element, "chunked");
      const bool identity = equals_letters(element, "identity");
      if (!chunked && !identity) {
        const std::string_view name = trim(element.substr(0, element.find(';')));
        const bool wrong = !is_token(name) || equals_letters(name, "chunked");
        coding =
            wrong || coding == TransferCoding::Chunked ? TransferCoding::Malformed : TransferCoding::Unknown;
        first = false;
        return !wrong;
      }
      if (first) {
        coding = chunked ? TransferCoding::Chunked : TransferCoding::Identity;
      } else if (coding != TransferCoding::Unknown) {
        coding = TransferCoding::Malformed;  // chunked twice, or not last, or beside identity
      }
      first = false;
      return coding != TransferCoding::Malformed;
    });
    if (!first && coding == TransferCoding::Malformed) break;
  }
  return coding;
}

}  // namespace dlb::http
