#include "loadgen/chat_frames.h"

#include "loadgen/hash.h"
#include "loadgen/payload.h"

namespace dlb::loadgen {

const ChatRow* FrameReader::row(std::string_view text) {
  const std::uint64_t hash = hash_bytes(text, 4);
  Slot& slot = (*slots_)[hash % kSlots];
  if (slot.size == text.size() && slot.hash == hash) return &slot.row;
  said_ = reader_.read(text);
  if (said_.kind != ServerSaid::Kind::Message) return nullptr;
  const ChatMessage& message = said_.messages.front();
  slot.hash = hash;
  slot.size = text.size();
  slot.id = message.id;
  slot.row = {message.sequence, slot.id, message.has_text ? content_hash(message.name, message.text) : 0,
              hash_bytes(message.timestamp, 0)};
  return &slot.row;
}

}  // namespace dlb::loadgen
