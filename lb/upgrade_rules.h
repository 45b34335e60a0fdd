// Which requests may turn their connection into a tunnel, and to what. Pure.
//
// A request is forwarded with its Upgrade when it is HTTP/1.1, has no body, and names a protocol other than
// HTTP and TLS: those would carry requests past every rule of ours (deny-paths, limits, counts). Whatever is
// not forwarded is removed, and the request is an ordinary one.
#pragma once

#include <string>
#include <string_view>

#include "common/http_message.h"

namespace dlb::lb {

// The protocols to offer to the backend, as an Upgrade field's value; empty: this is no upgrade.
std::string offered_protocols(const RequestHead& head);

// Whether a 101 switches to something that `offer` holds.
bool switches_as_offered(const ResponseHead& head, std::string_view offer);

}  // namespace dlb::lb
