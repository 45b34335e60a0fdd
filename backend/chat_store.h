// ChatStore: what WSS sessions need of the store besides putting messages: each new row once and in order,
// pages of older rows, names with their keys, and who is online in the whole cluster. Part of every
// MessageStore, with the same rules: loop thread only, answers by token at the end of a turn, never inside
// the call, exactly one for each call that was not cancelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/message.h"
#include "common/clock.h"

namespace dlb::backend {

// Set in every token of the chat, and in none of the HTTP API: those hold a place in a slab there, and a tag
// above.
inline constexpr std::uint64_t kChatToken = std::uint64_t{1} << 30;

// Whose a name is.
struct OwnerAnswer {
  enum class Kind : std::uint8_t {
    Unavailable,  // the database can't be asked now
    Nobody,       // find_key() only
    Known,
  };
  Kind kind = Kind::Unavailable;
  std::string public_key;  // SubjectPublicKeyInfo in DER, of the first who claimed the name
};

// Rows as feed elements (feed_cache.h), ascending.
struct RowsAnswer {
  struct Mark {
    std::int64_t sequence = 0;
    std::size_t end = 0;  // in `json`; the next row begins behind the comma that follows
  };

  bool available = false;
  // rows_after() only: nothing so new exists, so what the asker has is not of this table.
  bool future = false;
  std::string json;  // the elements with commas between them
  std::vector<Mark> marks;
  bool has_more = false;           // in the direction that was asked for
  std::int64_t last_sequence = 0;  // of the whole table

  std::string_view row(std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : marks[index - 1].end + 1;
    return std::string_view(json).substr(begin, marks[index].end - begin);
  }
};

struct UsersAnswer {
  bool available = false;
  // Sorted, each once; shared by all who asked together.
  std::shared_ptr<const std::vector<std::string>> names;
};

class ChatStoreClient {
 public:
  virtual void on_chat_put(std::uint64_t token, const PutOutcome& outcome) = 0;
  // Each row that was committed since live() holds, by whomever, once and in sequence order. The view is
  // valid during the call. False when it could not be told to everyone until `end`: this row comes again,
  // before any other.
  [[nodiscard]] virtual bool on_live_row(std::int64_t sequence, std::string_view json, TimePoint end) = 0;
  // Whether anybody is there to be told at once.
  virtual bool listens() const { return true; }
  // The table was truncated or restored: nothing that was told before holds. Rows of the new table that were
  // there when this was noticed follow as live rows if they are few; else they are history.
  virtual void on_reset() = 0;
  virtual void on_owner(std::uint64_t token, const OwnerAnswer& answer) = 0;
  virtual void on_rows(std::uint64_t token, const RowsAnswer& answer) = 0;
  virtual void on_users(std::uint64_t token, const UsersAnswer& answer) = 0;
  // What the set_present() of this version was given, or a later one, can be seen by all backends; or it
  // could not be written now, and is tried again.
  virtual void on_present(std::uint64_t version) = 0;

 protected:
  ~ChatStoreClient() = default;
};

class ChatStore {
 public:
  static constexpr std::size_t kPageBytes = 500 * 1024;    // of a history page's `json`
  static constexpr std::size_t kReplayBytes = 128 * 1024;  // of a replay's part, or one larger row

  // Before the first call of the others; at most once.
  virtual void subscribe(ChatStoreClient& client) = 0;

  // Whether rows are told live: the end of the table has been seen since the start. Before that, old rows and
  // new ones can't be told apart.
  virtual bool live() const = 0;

  // Takes the name for this key if nobody has it; on_owner() tells whose it is now, for ever and for all
  // backends.
  virtual void claim(std::string_view name, std::string_view public_key, std::uint64_t token) = 0;
  virtual void find_key(std::string_view name, std::uint64_t token) = 0;

  // The newest `limit` rows below `before` (0: of all, those included that were committed before this call),
  // fewer when they would be more than kPageBytes: on_rows().
  virtual void history(std::int64_t before, std::int64_t limit, std::uint64_t token) = 0;
  // The oldest rows above `after`, about kReplayBytes of them: on_rows(). `fresh`: with those that were
  // committed before this call.
  virtual void rows_after(std::int64_t after, bool fresh, std::uint64_t token) = 0;

  // Replaces the names that are online at this backend; they are until the next call, or until the backend
  // has been gone for some seconds. Returns the version that on_present() will name.
  virtual std::uint64_t set_present(std::vector<std::string> names) = 0;
  virtual void users(std::uint64_t token) = 0;

 protected:
  ~ChatStore() = default;
};

}  // namespace dlb::backend
