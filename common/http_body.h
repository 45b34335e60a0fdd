// Response bodies as references to shared immutable bytes: a feed of any size costs each reader one pointer
// and a cursor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlb {

// A view that keeps alive what it looks into (null owner: static bytes).
struct BodyPart {
  std::shared_ptr<const void> owner;
  std::string_view bytes;
};

// An immutable list of parts that several responses may share. `size` is the sum of the parts' bytes.
struct HttpBody {
  std::shared_ptr<const std::vector<BodyPart>> parts;
  std::uint64_t size = 0;

  static HttpBody of(std::string text) {
    auto owner = std::make_shared<const std::string>(std::move(text));
    const std::string_view view = *owner;
    auto list = std::make_shared<std::vector<BodyPart>>();
    list->push_back(BodyPart{std::move(owner), view});
    return HttpBody{std::move(list), view.size()};
  }
};

}  // namespace dlb
