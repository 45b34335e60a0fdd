// The checks of the chat: three users who all get a signed message exactly once, and a late one who sees it
// only when it asks for history.
#include <fmt/format.h>

#include <algorithm>

#include "common/base64.h"
#include "common/tls_session.h"
#include "loadgen/verify_checks.h"

namespace dlb::loadgen {
namespace {

constexpr std::int64_t kDay = 24 * 60 * 60;
constexpr std::int64_t kSoonDays = 14;
constexpr std::string_view kChatText = "Signed by loadgen verify: ünïcode 🙂";
constexpr std::string_view kSecondText = "the next one behind it";
constexpr std::string_view kHttpText = "posted by loadgen verify";

Error at(const ChatProbe& user, const Error& error) { return Error{user.name() + ": " + error.text}; }

}  // namespace

const WsUrl& VerifyChecks::chat_of(int number) const {
  return targets_.chats[static_cast<std::size_t>(number) % targets_.chats.size()];
}

std::unique_ptr<ChatProbe> VerifyChecks::user(int number) {
  return std::make_unique<ChatProbe>(
      ChatProbe::Parts{loop_, timers_, targets_.tls, *targets_.key, prefix_, stop_},
      name_ + std::to_string(number));
}

void VerifyChecks::chat_rows() {
  using V = VerifyChecks;
  row("certificate",
      "tls-cert and tls-key of ws-port (of the balancer's wss-listen no certificate: it passes bytes)",
      &V::certificate);
  const auto last = report_.rows.back().outcome;
  const bool there = last == CheckOutcome::Pass || last == CheckOutcome::Skip;
  row("three users join", "the backend's log; is this machine's clock right?", &V::users_join, there);
  const bool joined = users_.size() == kUsers;
  row("all get a signed message once",
      "the event channel between the backends (NOTIFY, or the data-dir's sockets)", &V::users_get_message,
      joined);
  row("all get an HTTP message once", "the event channel between the backends", &V::users_get_http_message,
      joined && sequence_ > 0);
  row("a late user sees history when it asks", "the backend's log", &V::late_user, chat_sequence_ > 0);
  row("resume without a gap", "the backend's log", &V::resume, chat_sequence_ > 0);
  users_.clear();
}

VerifyChecks::Finding VerifyChecks::certificate() {
  std::int64_t expires = 0;
  for (const WsUrl& chat : targets_.chats) {
    if (!chat.tls) continue;
    const auto probe = user(0);
    if (auto joined = probe->join(chat, -1, deadline_); !joined) {
      unreachable_ = probe->unreachable();
      return Error{joined.error().text};
    }
    const std::int64_t here = probe->certificate_expires_at();
    expires = expires == 0 ? here : std::min(expires, here);
  }
  if (expires == 0) return std::string("- no wss:// here");
  const std::int64_t days = (expires - wall_now_us() / 1'000'000) / kDay;
  if (days < 1) return Error{fmt::format("expires at {}", iso8601_utc(expires * 1'000'000))};
  return fmt::format("{}, for {} more days{}",
                     options_.insecure ? "not checked for whom it is (-insecure)" : "believed", days,
                     days < kSoonDays ? ": renew it soon" : "");
}

VerifyChecks::Finding VerifyChecks::users_join() {
  std::vector<std::unique_ptr<ChatProbe>> joined;
  for (int number = 0; number < kUsers; ++number) {
    joined.push_back(user(number));
    ChatProbe& probe = *joined.back();
    auto in = probe.join(chat_of(number), -1, deadline_);
    if (in) in = probe.fence(deadline_);
    if (!in) {
      unreachable_ = probe.unreachable();
      return at(probe, in.error());
    }
  }
  users_ = std::move(joined);
  return fmt::format("{}0 to {}, at {} urls", name_, kUsers - 1,
                     std::min<std::size_t>(kUsers, targets_.chats.size()));
}

VerifyChecks::Finding VerifyChecks::users_get_message() {
  const std::string first = id_text(2);
  const std::string second = id_text(3);
  const auto ack = users_[0]->say(first, kChatText, deadline_);
  if (!ack) return at(*users_[0], ack.error());
  if (ack->duplicate || ack->sequence <= 0) return Error{"a new message was acknowledged as a duplicate"};
  if (const auto next = users_[0]->say(second, kSecondText, deadline_); !next) {
    return at(*users_[0], next.error());
  }
  const auto key = RsaPublicKey::parse(targets_.key->public_der());
  for (const auto& user : users_) {
    // Behind the second there is no first one any more: messages come in order.
    if (auto came = user->wait_message(second, deadline_); !came) return at(*user, came.error());
    const ChatMessage* const got = user->first(first);
    if (got == nullptr || user->times(first) != 1 || user->times(second) != 1) {
      return Error{fmt::format("{} got it {} times, and the one behind it {} times", user->name(),
                               user->times(first), user->times(second))};
    }
    if (got > user->first(second)) return Error{user->name() + " got the second one before the first"};
    if (got->text != kChatText || got->name != users_[0]->name() || got->source != "wss" ||
        got->sequence != ack->sequence || got->timestamp != ack->timestamp) {
      return Error{user->name() + " got it with another text, name, sequence or timestamp"};
    }
    const auto signature = base64_decode(got->signature);
    if (!key || !signature || !key->verify(message_text(got->name, first, got->text), *signature)) {
      return Error{user->name() + " got it with a signature that does not fit"};
    }
  }
  const auto told = users_[1]->key_of(users_[0]->name(), deadline_);
  if (!told) return at(*users_[1], told.error());
  if (told->public_key != base64_encode(targets_.key->public_der())) {
    return Error{"the server gives another key for " + users_[0]->name()};
  }
  chat_sequence_ = ack->sequence;
  return fmt::format("sequence {}, signature verified by each", ack->sequence);
}

VerifyChecks::Finding VerifyChecks::users_get_http_message() {
  const std::string sent = id_text(4);
  const auto answer = post_message(sent, kHttpText);
  if (!answer) return answer.error();
  if (answer->status != 201) return Error{fmt::format("the post was answered {}", answer->status)};
  for (const auto& user : users_) {
    if (auto came = user->wait_message(sent, deadline_); !came) return at(*user, came.error());
    const ChatMessage* const got = user->first(sent);
    if (got->text != kHttpText || got->source != "http") return Error{user->name() + " got it altered"};
  }
  return std::string("unsigned, as it came");
}

VerifyChecks::Finding VerifyChecks::late_user() {
  const auto late = user(kUsers);
  auto in = late->join(chat_of(kUsers), -1, deadline_);
  if (in) in = late->fence(deadline_);
  if (!in) return at(*late, in.error());
  if (!late->kept().empty()) return Error{"it was sent messages that it had not asked for"};
  const auto page = late->history(25, chat_sequence_ + 1, deadline_);
  if (!page) return at(*late, page.error());
  const auto found = std::count_if(page->messages.begin(), page->messages.end(), [&](const ChatMessage& m) {
    return m.id == id_text(2) && m.text == kChatText && m.sequence == chat_sequence_;
  });
  if (found != 1) return Error{fmt::format("the history has the message {} times", found)};
  // By now a copy that somebody was sent late would be there.
  for (const auto& user : users_) {
    if (auto fenced = user->fence(deadline_); !fenced) return at(*user, fenced.error());
    for (const int number : {2, 3, 4}) {
      if (user->times(id_text(number)) > 1) return Error{user->name() + " got a message twice"};
    }
  }
  return fmt::format("nothing before, then {} messages", page->messages.size());
}

VerifyChecks::Finding VerifyChecks::resume() {
  ChatProbe& user = *users_.back();
  const std::size_t had = user.kept().size();
  if (auto in = user.join(chat_of(kUsers - 1), chat_sequence_ - 1, deadline_); !in)
    return at(user, in.error());
  for (const ChatMessage& message : user.kept()) {
    if (user.times(message.id) != 1) return Error{"a message came twice"};
  }
  if (user.kept().size() != had) {
    return Error{fmt::format("{} messages instead of {}", user.kept().size(), had)};
  }
  return fmt::format("all {} messages again, once", had);
}

}  // namespace dlb::loadgen
