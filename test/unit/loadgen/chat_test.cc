// The pure parts of the terminal client: urls, texts on a terminal, the protocol's messages, keys in files.
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "common/base64.h"
#include "loadgen/chat_key.h"
#include "loadgen/chat_printer.h"
#include "loadgen/chat_protocol.h"
#include "loadgen/chat_text.h"
#include "loadgen/ws_url.h"
#include "test/support/catch.h"
#include "test/support/temp_dir.h"

namespace dlb::loadgen {
namespace {

const RsaPrivateKey& some_key() {
  static const auto key = RsaPrivateKey::generate();
  REQUIRE(key);
  return *key;
}

ChatMessage message(std::int64_t sequence, const std::string& name, const std::string& text, bool sign) {
  ChatMessage out;
  out.sequence = sequence;
  out.id = "id-" + std::to_string(sequence);
  out.name = name;
  out.text = text;
  out.timestamp = "2026-09-10T14:00:00.123456+00:00";
  out.source = sign ? "wss" : "http";
  if (sign) out.signature = base64_encode(some_key().sign(message_text(name, out.id, text)));
  return out;
}

struct UtcGuard {
  UtcGuard() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

std::string content(std::FILE* file) {
  std::string out(64 * 1024, '\0');
  std::rewind(file);
  out.resize(std::fread(out.data(), 1, out.size(), file));
  return out;
}

}  // namespace

TEST_CASE("ws url: taken apart, with what is left out") {
  const auto full = parse_ws_url("wss://chat.example:5000/a?b");
  REQUIRE(full);
  CHECK((full->tls && full->host == "chat.example" && full->place == "chat.example:5000"));
  CHECK((full->authority == "chat.example:5000" && full->target == "/a?b"));
  const auto bare = parse_ws_url("WS://chat.example");
  REQUIRE(bare);
  CHECK((!bare->tls && bare->place == "chat.example:80" && bare->target == "/ws"));
  const auto v6 = parse_ws_url("wss://[::1]");
  REQUIRE(v6);
  CHECK((v6->host == "::1" && v6->place == "[::1]:443"));
  CHECK(parse_ws_url("wss://[::1]:7/")->target == "/");
  for (const char* bad : {"", "chat.example", "http://a", "wss://", "wss://:5000", "wss://a@b", "wss://a/#x",
                          "wss://a b", "wss://::1", "wss://[]", "wss://a\n"}) {
    CHECK_FALSE(parse_ws_url(bad));
  }
}

TEST_CASE("chat text: nothing that others write can do anything to a terminal") {
  CHECK(escape_for_terminal("h\xc3\xa9llo \xf0\x9f\x98\x80") == "h\xc3\xa9llo \xf0\x9f\x98\x80");
  CHECK(escape_for_terminal("a\x1b[31m\n\r\t\x7f") == "a\\x1b[31m\\n\\r\\t\\x7f");
  CHECK(escape_for_terminal("\xc2\x9b") == "\\x9b");  // a C1 control: CSI in one character
  CHECK(escape_for_terminal("\xe2\x80\xae!") == "\\u{202e}!");
  CHECK(escape_for_terminal("\xff\xc3") == "\\xff\\xc3");
  CHECK(escape_for_terminal("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  for (int c = 0; c < 0x200; ++c) {
    std::string text;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else {
      text += static_cast<char>(0xc0 | (c >> 6));
      text += static_cast<char>(0x80 | (c & 0x3f));
    }
    for (const char shown : escape_for_terminal(text)) {
      const auto byte = static_cast<unsigned char>(shown);
      CHECK((byte >= 0x20 && byte != 0x7f));
    }
  }
}

TEST_CASE("chat text: a line and a JSON object a message") {
  const UtcGuard utc;
  ChatMessage row = message(7, "Al\nice", "hi", false);
  CHECK(message_line(row, SignatureVerdict::Unsigned) == "2026-09-10 14:00:00 - Al\\nice: hi");
  CHECK(message_line(row, SignatureVerdict::Good) == "2026-09-10 14:00:00 ✓ Al\\nice: hi");
  row.timestamp = "\x1b";
  row.has_text = false;
  CHECK(message_line(row, SignatureVerdict::Bad) == "\\x1b ✗ Al\\nice: (can't be decrypted)");
  row.timestamp = "now";
  CHECK(message_json(row, SignatureVerdict::Bad) ==
        R"({"message-id":"id-7","client-name":"Al\nice","msg":null,"timestamp":"now","sequence":7,)"
        R"("source":"http","verified":false})");
}

TEST_CASE("chat protocol: what is sent carries signatures over what is sent") {
  const auto public_key = RsaPublicKey::parse(some_key().public_der());
  REQUIRE(public_key);
  const std::string request = message_request(some_key(), "Alice", "m\"1", "text\n");
  const std::string head = R"({"type":"message","message-id":"m\"1","msg":"text\n","signature":")";
  REQUIRE(request.substr(0, head.size()) == head);
  const auto signature = base64_decode(request.substr(head.size(), request.size() - head.size() - 2));
  REQUIRE(signature);
  CHECK(public_key->verify("dlb-message-v1\nAlice\nm\"1\ntext\n", *signature));

  const std::string fresh = register_request(some_key(), "Alice", "2026-09-10T14:00:00Z", -1);
  CHECK(fresh.find("after_sequence") == std::string::npos);
  CHECK(register_request(some_key(), "Alice", "t", 0).find(R"("after_sequence":0})") != std::string::npos);
  CHECK(register_text("Alice", "t", "f") == "dlb-register-v1\nAlice\nt\nf");
  CHECK(history_request(25, 0) == R"({"type":"load_history","limit":25})");
  CHECK(history_request(25, 9) == R"({"type":"load_history","limit":25,"before_sequence":9})");
}

TEST_CASE("chat protocol: what servers say is read, and what is none of it is Broken or Unknown") {
  using Kind = ServerSaid::Kind;
  ServerReader reader;
  const ServerSaid live = reader.read(
      R"({"type":"message","message":{"message-id":"i","client-name":"A","msg":"x","timestamp":"t","sequence":9,)"
      R"("source":"wss","signature":"c2ln","later":1}})");
  REQUIRE(live.kind == Kind::Message);
  CHECK((live.messages[0].sequence == 9 && live.messages[0].text == "x" &&
         live.messages[0].signature == "c2ln"));
  const ServerSaid page = reader.read(
      R"({"type":"history","messages":[{"message-id":"i","client-name":"A","msg":null,"timestamp":"t","sequence":1,)"
      R"("source":"http","error":"undecryptable"}],"has_more":true,"next_before_sequence":1})");
  REQUIRE(page.kind == Kind::History);
  CHECK((!page.messages[0].has_text && page.next_before == 1));
  CHECK(reader.read(R"({"type":"history","messages":[],"has_more":false,"next_before_sequence":null})")
            .next_before == 0);
  const ServerSaid ack =
      reader.read(R"({"type":"ack","message-id":"i","sequence":3,"timestamp":"t","duplicate":false})");
  CHECK((ack.kind == Kind::Ack && ack.id == "i" && ack.sequence == 3));
  const ServerSaid error =
      reader.read(R"({"type":"error","code":"too_large","detail":"d","message-id":"i"})");
  CHECK((error.kind == Kind::Error && error.code == "too_large" && error.detail == "d" && error.id == "i"));
  const ServerSaid odd = reader.read(R"({"type":"error","code":"a\u001b[2J","detail":"\u202eb\u0007"})");
  CHECK((odd.code == "a\\x1b[2J" && odd.detail == "\\u{202e}b\\x07"));  // for people's eyes
  CHECK(reader.read(R"({"type":"resumed","count":1,"through_sequence":5})").sequence == 5);
  CHECK(reader.read(R"({"type":"key","username":"A","public_key":null})").public_key.empty());
  CHECK(reader.read(R"({"type":"surprise"})").kind == Kind::Unknown);
  for (const char* bad :
       {"", "[]", "{", R"({"type":1})", R"({"type":"ack"})", R"({"type":"message","message":{}})",
        R"({"type":"history","messages":[1],"has_more":false})"}) {
    CHECK(reader.read(bad).kind == Kind::Broken);
  }
}

TEST_CASE("chat printer: once each, in order, and signed lines wait for their key") {
  const UtcGuard utc;
  std::FILE* const out = std::tmpfile();
  REQUIRE(out != nullptr);
  ChatPrinter printer(out, false);
  printer.add(message(1, "Bob", "plain", false));
  printer.add(message(2, "Alice", "signed", true));
  printer.add(message(2, "Alice", "signed", true));
  ChatMessage forged = message(3, "Alice", "forged", true);
  forged.text = "changed";
  printer.add(forged);
  printer.add(message(4, "Carol", "of another key", true));
  printer.add(message(5, "Bob", "plain again", false));
  CHECK(content(out).find("signed") == std::string::npos);
  CHECK(printer.wanted_key() == "Alice");
  printer.key_of("Alice", base64_encode(some_key().public_der()));
  CHECK(printer.wanted_key() == "Carol");
  printer.key_of("Carol", {});
  CHECK(printer.drained());
  const std::string time = "2026-09-10 14:00:00 ";
  CHECK(content(out) == time + "- Bob: plain\n" + time + "✓ Alice: signed\n" + time + "✗ Alice: changed\n" +
                            time + "? Carol: of another key\n" + time + "- Bob: plain again\n");
  CHECK_FALSE(printer.broken());
  std::fclose(out);
}

TEST_CASE("chat key: made once, for its owner only, and read again") {
  dlb::test::TempDir dir;
  const std::string path = dir.file("me.pem");
  const auto made = load_or_make_key(path, "Alice");
  REQUIRE(made);
  CHECK(made->made);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto again = load_or_make_key(path, "Alice");
  REQUIRE(again);
  CHECK((!again->made && again->warning.empty()));
  CHECK(again->key.public_der() == made->key.public_der());
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK_FALSE(load_or_make_key(path, "Alice")->warning.empty());

  dir.write("broken.pem", "nothing of that kind");
  CHECK_FALSE(load_or_make_key(dir.file("broken.pem"), "Alice"));
  CHECK_FALSE(load_or_make_key(dir.file("none/x.pem"), "Alice"));
  CHECK(default_key_file("Al/ice é") == "dlb-Al_ice_é.pem");
}

}  // namespace dlb::loadgen
