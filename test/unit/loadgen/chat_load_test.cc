// The pure parts of the chat profile: what is signed ahead, what is scheduled, frames read once, thresholds
// and reports on deliveries, and promises that a feed does not keep.
#include "loadgen/chat_load.h"

#include <algorithm>
#include <memory>

#include "common/base64.h"
#include "common/json_writer.h"
#include "common/ws_handshake.h"
#include "loadgen/chat_frames.h"
#include "loadgen/chat_protocol.h"
#include "loadgen/chat_report.h"
#include "loadgen/chat_stage.h"
#include "loadgen/feed_checker.h"
#include "loadgen/hash.h"
#include "loadgen/observation.h"
#include "loadgen/options.h"
#include "loadgen/report.h"
#include "loadgen/signed_messages.h"
#include "loadgen/thresholds.h"
#include "test/support/catch.h"
#include "test/unit/loadgen/scripted_server.h"

namespace dlb::loadgen {
namespace {

constexpr std::string_view kTime = "2026-09-10T14:00:00.123456+00:00";

const RsaPrivateKey& load_key(int which) {
  static const auto one = RsaPrivateKey::generate();
  static const auto two = RsaPrivateKey::generate();
  REQUIRE(one);
  REQUIRE(two);
  return which == 1 ? *one : *two;
}

SignedMessages messages_of(std::uint64_t seed, int key, std::size_t count) {
  PayloadShape shape;
  shape.seed = seed;
  SignedMessages messages(shape, load_key(key), "name-", 3);
  messages.sign(count, [](std::size_t) { return true; });
  return messages;
}

std::string frame_of(std::int64_t sequence, std::string_view id, std::string_view text) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("type", "message").key("message").begin_object();
  json.field("message-id", id).field("client-name", "a").field("msg", text);
  json.field("timestamp", kTime).field("sequence", sequence);
  json.field("source", "wss").end_object().end_object();
  return out;
}

TEST_CASE("signed ahead: the same seed and key give the same messages, another key others") {
  SignedMessages one = messages_of(5, 1, 7);
  SignedMessages same = messages_of(5, 1, 7);
  REQUIRE(one.size() == 7);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one.id(i) == same.id(i));
    CHECK(one.content(i) == same.content(i));
    CHECK(one.publisher(i) == i % 3);
  }
  CHECK_FALSE(messages_of(5, 2, 1).id(0) == one.id(0));
  CHECK_FALSE(messages_of(6, 1, 1).id(0) == one.id(0));
}

TEST_CASE("signed ahead: requests bear signatures of their publisher's name, id and text") {
  SignedMessages messages = messages_of(5, 1, 5);
  const auto key = RsaPublicKey::parse(load_key(1).public_der());
  REQUIRE(key);
  const std::string request(messages.request(4));
  const auto member = [&](const std::string& name) {
    const std::size_t at = request.find("\"" + name + "\":\"") + name.size() + 4;
    return request.substr(at, request.find('"', at) - at);
  };
  CHECK(messages.find(member("message-id")) == 4);
  CHECK(messages.find("somebody's") == HashPlaces::kNone);
  const auto signature = base64_decode(member("signature"));
  REQUIRE(signature);
  const std::string text = request.substr(request.find("\"msg\":\"") + 7);
  CHECK_FALSE(key->verify(message_text("name-0", member("message-id"), "x"), *signature));
  CHECK(content_hash("name-1", "x") != messages.content(4));
  CHECK(text.size() > 16);
}

TEST_CASE("signing stops when it is told to") {
  PayloadShape shape;
  SignedMessages messages(shape, load_key(1), "name-", 1);
  messages.sign(200, [](std::size_t) { return false; });
  CHECK(messages.size() == 64);
}

TEST_CASE("scheduled messages: as many as have their time in the duration") {
  ChatStageShape shape;
  shape.rate = 50;
  CHECK(scheduled_messages(shape, std::chrono::seconds(2), 1000) == 100);
  CHECK(scheduled_messages(shape, std::chrono::seconds(2), 30) == 30);
  CHECK(scheduled_messages(shape, {}, 77) == 77);
  shape.arrival = Arrival::Poisson;
  shape.seed = 3;
  const std::size_t once = scheduled_messages(shape, std::chrono::seconds(20), 10'000);
  CHECK(once == scheduled_messages(shape, std::chrono::seconds(20), 10'000));
  CHECK(once > 800);
  CHECK(once < 1200);
}

TEST_CASE("frames: the same bytes are read once, other bytes never for them") {
  FrameReader reader;
  const std::string frame = frame_of(7, "an-id", "hello");
  for (int i = 0; i < 3; ++i) {
    const ChatRow* const row = reader.row(frame);
    REQUIRE(row != nullptr);
    CHECK(row->sequence == 7);
    CHECK(row->id == "an-id");
    CHECK(row->content == content_hash("a", "hello"));
    CHECK(row->stamp == hash_bytes(kTime, 0));
  }
  const ChatRow* const other = reader.row(frame_of(7, "an-id", "hellO"));
  REQUIRE(other != nullptr);
  CHECK(other->content == content_hash("a", "hellO"));
  CHECK(reader.row(R"({"type":"ack","message-id":"i","sequence":3,"timestamp":"t","duplicate":true})") ==
        nullptr);
  CHECK(reader.said().kind == ServerSaid::Kind::Ack);
  CHECK(reader.said().duplicate);
  CHECK(reader.said().timestamp == "t");
  CHECK(reader.row("{") == nullptr);
  CHECK(reader.said().kind == ServerSaid::Kind::Broken);
}

ChatResult result_with(StreamFaults faults) {
  ChatResult chat;
  chat.subscribers = 2;
  chat.groups.resize(1);
  chat.fanout_us.record(20'000);
  GroupDelivery group;
  group.name = "wss://one";
  group.streams = 2;
  group.expected = 20;
  group.delivered = 20 - faults.missed;
  group.faults = faults;
  chat.delivery.groups.push_back(group);
  if (faults.missed > 0)
    chat.delivery.examples.emplace_back("missed x (sequence 3): subscriber 0 at wss://one");
  return chat;
}

ThresholdVerdict verdict(std::string_view text, const ChatResult* chat, const FeedFaults* faults = nullptr) {
  const auto parsed = parse_thresholds(text);
  REQUIRE(parsed);
  const auto recorder = std::make_unique<Recorder>();
  return judge(*parsed, Measured{*recorder, std::chrono::seconds(1), faults, chat}).front();
}

TEST_CASE("thresholds on deliveries") {
  const ChatResult chat = result_with({.missed = 2, .duplicated = 1, .reordered = 4});
  CHECK(verdict("missed==2", &chat).held);
  CHECK(verdict("reordered<5", &chat).held);
  CHECK(verdict("duplicated==1", &chat).held);
  FeedFaults faults;
  faults.duplicated = 3;
  CHECK(verdict("duplicated==4", &chat, &faults).held);
  CHECK(verdict("p99(fanout)<21ms", &chat).held);
  CHECK_FALSE(verdict("p99(fanout)<19ms", &chat).held);
  CHECK_FALSE(verdict("p99(fanout)<1s", nullptr).value);
  CHECK_FALSE(verdict("missed==0", nullptr).held);
  CHECK_FALSE(verdict("p99(ack)<1s", &chat).value);
  CHECK_FALSE(parse_thresholds("p99(fanout,intended)<1s"));
  CHECK_FALSE(need_verification(*parse_thresholds("duplicated==0,missed==0"), true));
  CHECK(need_verification(*parse_thresholds("duplicated==0"), false));
  CHECK(need_verification(*parse_thresholds("lost==0"), true));
}

TEST_CASE("the report tells what subscribers missed, where, and says FAILED") {
  const ChatResult good = result_with({});
  CHECK(good.passed());
  CHECK(chat_failures(good).empty());
  CHECK(chat_text(good).find("each once, in order") != std::string::npos);

  const ChatResult bad = result_with({.missed = 2});
  CHECK_FALSE(bad.passed());
  REQUIRE(chat_failures(bad).size() == 1);
  CHECK(chat_failures(bad).front().find("missed 2") != std::string::npos);
  CHECK(chat_text(bad).find("2 subscribers at wss://one: 18 of 20 delivered; missed 2") != std::string::npos);
  CHECK(chat_text(bad).find("missed x (sequence 3): subscriber 0 at wss://one") != std::string::npos);
  std::string text;
  JsonWriter json(text);
  chat_json(json, bad);
  CHECK(text.find(R"("expected":20,"delivered":18)") != std::string::npos);

  ChatResult away = result_with({});
  away.unsettled = 1;
  CHECK_FALSE(away.passed());
}

// A feed of one row, against what an answer has promised of it.
std::uint64_t altered_in_feed(const Acknowledged& told, const Acknowledged* again = nullptr) {
  const MessageId id = make_message_id(1, 2);
  std::string name(kMessageIdChars, ' ');
  write_message_id(id, name.data());
  Ledger ledger;
  ledger.add(id, content_hash("a", "hello"), Promise::Accepted, told);
  if (again != nullptr) ledger.add(id, content_hash("a", "hello"), Promise::Accepted, *again);
  FeedChecker checker(ledger);
  std::string row = frame_of(7, name, "hello");
  row = row.substr(row.find("\"message\":") + 10);
  row.pop_back();
  checker.feed("{\"messages\":[" + row + "],\"count\":1}");
  return checker.finish().faults.altered;
}

TEST_CASE("a feed must show the sequence and timestamp that were promised") {
  const std::uint64_t stamp = hash_bytes(kTime, 0);
  CHECK(altered_in_feed({}) == 0);
  CHECK(altered_in_feed({7, stamp, {}}) == 0);
  CHECK(altered_in_feed({7, 0, {}}) == 0);
  CHECK(altered_in_feed({8, stamp, {}}) == 1);
  CHECK(altered_in_feed({7, stamp ^ 1, {}}) == 1);
  const Acknowledged same{7, stamp, {}};
  const Acknowledged other{9, stamp, {}};
  CHECK(altered_in_feed({7, stamp, {}}, &same) == 0);
  CHECK(altered_in_feed({7, stamp, {}}, &other) == 1);
}

std::string finish(std::vector<const char*> arguments, Options& options) {
  arguments.insert(arguments.begin(), "loadgen");
  const char* const environment[] = {nullptr};
  const auto loaded =
      load_options(kOptionTable, options, static_cast<int>(arguments.size()), arguments.data(), environment);
  if (!loaded) return loaded.error().text;
  const auto finished = finish_options(*loaded, options);
  return finished ? std::string() : finished.error().text;
}

// Upgrades, sends these bytes, and is silent.
test::Reply upgrade_and(const test::Received& request, std::string frames) {
  const std::string head =
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: " +
      ws_accept_value(request.header("Sec-WebSocket-Key")) + "\r\n\r\n";
  return {{head + frames}, test::Reply::Then::Hang, {}};
}

TEST_CASE("a chat that does not register anybody is an error in time, with url and what came") {
  std::string frames;
  std::string expected;
  SECTION("silence") { expected = ": waited in vain for the server's answer; nothing came"; }
  SECTION("something else") {
    frames = "\x81\x11{\"type\":\"\\u001b\"}";
    expected = R"(; what came last: {"type":"\u001b"})";
  }
  SECTION("a close with a reason that steers terminals") {
    frames = "\x88\x06\x03\xe9\x1b[2J";
    expected = ": closed by the server (1001): \\x1b[2J";
  }
  test::ScriptedServer server([&](const test::Received& request) { return upgrade_and(request, frames); });
  Options options;
  options.profile = "chat";
  options.chat = true;
  options.request_timeout = std::chrono::milliseconds(300);
  options.wss_url = {"ws://127.0.0.1:" + std::to_string(server.port()) + "/ws"};
  auto load = ChatLoad::make(options);
  REQUIRE(load);
  EventLoop loop;
  Ledger ledger;
  const bool stop = false;
  const TimePoint began = monotonic_now();
  const auto opened = (*load)->open(loop, ledger, 1, stop);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().text.starts_with(options.wss_url.front() + ": "));
  CHECK(opened.error().text.ends_with(expected));
  CHECK(monotonic_now() - began < std::chrono::seconds(14));
}

TEST_CASE("options of chat users") {
  Options chat;
  CHECK(finish({"-profile", "chat", "-wss-url", "wss://a,wss://b", "-users", "40"}, chat).empty());
  CHECK(chat.chat);
  CHECK(chat.rate == 10);
  CHECK(chat.duration == std::chrono::seconds(10));
  CHECK_FALSE(chat.verify_feed);
  CHECK(chat.wss_url.size() == 2);
  // The default url has nothing to do with it: it is neither named nor asked.
  const std::vector<Target> targets = {*parse_target(chat.url.front())};
  CHECK_FALSE(sampler_plan(chat, targets, {}, false)->balancer);
  RunResult result;
  result.options = chat;
  CHECK(report_text(result).starts_with("run at wss://a,wss://b: chat, "));
  Options given;
  CHECK(finish({"-profile", "chat", "-wss-url", "wss://a", "-url", "http://127.0.0.1:1"}, given).empty());
  CHECK(sampler_plan(given, targets, {}, false)->balancer);
  given.sample_first_url = false;
  given.lb_url = "http://127.0.0.1:2";
  CHECK(sampler_plan(given, targets, {}, false)->balancer);
  for (const auto& wrong : std::vector<std::vector<const char*>>{
           {"-profile", "chat"},
           {"-subscribers", "4"},
           {"-wss-url", "wss://a"},
           {"-profile", "chat", "-wss-url", "wss://a", "-feed-percent", "5"},
           {"-profile", "chat", "-wss-url", "wss://a", "-users", "3", "-publishers", "4"},
           {"-profile", "chat", "-wss-url", "wss://a", "-rate", "100000", "-duration", "1m"}}) {
    Options options;
    CHECK_FALSE(finish(wrong, options).empty());
  }
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"-held-new-connections", "5"},
                                                        {"-held-new-age", "1s"},
                                                        {"-source-addresses", "127.1.0.0/24"},
                                                        {"-slow-reader-percent", "5"},
                                                        {"-duplicate-percent", "5"},
                                                        {"-requests-per-connection", "5"},
                                                        {"-queue-max", "5"}}) {
    Options options;
    CHECK(finish({"-profile", "chat", "-wss-url", "wss://a", name, value}, options)
              .find("has no meaning with profile chat") != std::string::npos);
  }
  Options cut;  // 100 are due
  CHECK(finish({"-profile", "chat", "-wss-url", "wss://a", "-requests", "1000000", "-duration", "10s",
                "-rate", "10"},
               cut)
            .empty());
  Options beside;
  CHECK(finish({"-wss-url", "wss://a", "-subscribers", "4", "-fail", "p99(fanout)<1s"}, beside).empty());
}

TEST_CASE("the chat profile reads a feed only where a url was given") {
  const auto error = [](std::vector<const char*> more) {
    more.insert(more.begin(), {"-profile", "chat", "-wss-url", "wss://a"});
    Options options;
    return finish(more, options);
  };
  constexpr std::string_view kWhy = ": reads a feed, and with profile chat -url must say where one is";
  CHECK(error({"-verify-feed"}) == "--verify-feed" + std::string(kWhy));
  CHECK(error({"-verify-urls", "http://127.0.0.1:1"}) == "--verify-urls" + std::string(kWhy));
  CHECK(error({"-fail", "lost==0"}) == "--fail" + std::string(kWhy));
  CHECK(error({"-fail", "missed==0"}).empty());
  CHECK(error({"-verify-feed", "-url", "http://127.0.0.1:8080"}).empty());
  CHECK(error({"-verify-urls", "http://127.0.0.1:1", "-url", "http://127.0.0.1:2"}).empty());
}

TEST_CASE("urls of any length are cut where an error shows them, and the option is named") {
  const std::string many(5000, 'x');
  const auto check = [](const std::string& error, std::string_view begin, std::string_view end) {
    INFO(error);
    CHECK(error.size() < 600);
    CHECK(error.starts_with(begin));
    CHECK(error.ends_with(end));
  };
  Options options;
  options.profile = "chat";
  options.wss_url = {"ftp://" + many};
  const auto no_chat = ChatLoad::make(options);
  REQUIRE_FALSE(no_chat);
  check(no_chat.error().text, "wss-url: url \"ftp://xx", "wss://HOST[:PORT][/PATH] is expected, or ws://…");
  options.wss_url = {"ws://127.0.0.1:0" + many};  // what stands behind the scheme is looked at later
  auto load = ChatLoad::make(options);
  REQUIRE(load);
  EventLoop loop;
  Ledger ledger;
  const bool stop = false;
  const auto opened = (*load)->open(loop, ledger, 1, stop);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().text.size() < 700);
  CHECK(opened.error().text.starts_with("ws://127.0.0.1:0xx"));

  const std::vector<Target> targets = {*parse_target("http://127.0.0.1:1")};
  const auto plan_error = [&](Options of) {
    const auto plan = sampler_plan(of, targets, {}, false);
    return plan ? std::string() : plan.error().text;
  };
  Options wrong;
  wrong.lb_url = "ftp://" + many;
  check(plan_error(wrong), "lb-url: url \"ftp://xx", "only http:// and https:// can be loaded");
  wrong = {};
  wrong.system_urls = {many};
  check(plan_error(wrong), "system-urls: \"xxx", "\": NAME=URL is expected");
  wrong.system_urls = {"sys2=ftp://" + many};
  check(plan_error(wrong), "system-urls: url \"ftp://xx", "only http:// and https:// can be loaded");
  const char* const flags[] = {"loadgen", "-lb-url", "x"};
  const char* const environment[] = {nullptr};
  Options given;
  const auto loaded = load_options(kOptionTable, given, 3, flags, environment);
  REQUIRE(loaded);
  given.lb_url = "ftp://" + many;
  const auto named = sampler_plan(given, targets, {}, false, *loaded);
  REQUIRE_FALSE(named);
  check(named.error().text, "--lb-url: url ", "can be loaded");
}

}  // namespace
}  // namespace dlb::loadgen
