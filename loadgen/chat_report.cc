#include "loadgen/chat_report.h"

#include <fmt/format.h>

#include <iterator>

#include "common/json_writer.h"
#include "loadgen/report_parts.h"

namespace dlb::loadgen {
namespace {

void times_json(JsonWriter& json, std::string_view name, const Histogram& times) {
  json.key(name).begin_object().field("count", times.count()).field("mean", times.mean() / 1000, 3);
  for (const Percentile& p : kPercentiles) json.field(p.name, as_ms(times.percentile(p.percent)), 3);
  json.end_object();
}

void faults_json(JsonWriter& json, const StreamFaults& faults) {
  json.field("missed", faults.missed).field("duplicated", faults.duplicated);
  json.field("reordered", faults.reordered).field("altered", faults.altered).field("phantom", faults.phantom);
}

double deliveries_per_second(const ChatResult& chat) {
  return chat.seconds > 0 ? static_cast<double>(chat.deliveries) / chat.seconds : 0;
}

void times_text(std::string& text, std::string_view name, const Histogram& times) {
  if (times.count() == 0) return;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "  {:<28}", name);
  for (const Percentile& p : kPercentiles) {
    fmt::format_to(out, " {} {:.2f}", p.name, as_ms(times.percentile(p.percent)));
  }
  text += " ms\n";
}

std::string faults_text(const StreamFaults& faults) {
  return fmt::format("missed {}, duplicated {}, reordered {}, altered {}, phantom {}", faults.missed,
                     faults.duplicated, faults.reordered, faults.altered, faults.phantom);
}

}  // namespace

void chat_json(JsonWriter& json, const ChatResult& chat) {
  const Delivery& d = chat.delivery;
  json.begin_object().field("passed", chat.passed()).field("subscribers", chat.subscribers);
  json.field("publishers", chat.publishers).field("signed_ahead", chat.signed_ahead);
  json.field("signing_seconds", chat.signing_seconds, 3).field("duplicate_acks", chat.duplicate_acks);
  json.field("accepted", d.accepted).field("rows", d.rows).field("foreign_rows", d.foreign_rows);
  json.field("expected", d.expected()).field("delivered", d.delivered());
  json.field("deliveries_per_second", deliveries_per_second(chat), 1).field("feed_read", d.feed_read);
  faults_json(json, d.faults());
  json.field("contradicted", d.contradicted).field("resets", d.resets()).field("unsettled", chat.unsettled);
  json.field("planned_drops", chat.planned_drops).field("lost_connections", chat.lost_connections);
  json.field("slow_consumer_closes", chat.slow_closes).field("resumed", chat.resumed);
  times_json(json, "join_ms", chat.join_us);
  times_json(json, "fanout_ms", chat.fanout_us);
  times_json(json, "after_ack_ms", chat.delivery_us);
  times_json(json, "catch_up_ms", chat.catch_up_us);
  json.key("errors").begin_object();
  for (const auto& [code, count] : chat.errors) json.field(code, count);
  json.end_object().key("groups").begin_array();
  for (std::size_t i = 0; i < d.groups.size(); ++i) {
    const GroupDelivery& group = d.groups[i];
    json.begin_object().field("url", group.name).field("subscribers", group.streams);
    json.field("expected", group.expected).field("delivered", group.delivered);
    faults_json(json, group.faults);
    json.field("resets", group.resets);
    if (i < chat.groups.size()) times_json(json, "fanout_ms", chat.groups[i].fanout_us);
    json.end_object();
  }
  json.end_array().key("examples").begin_array();
  for (const std::string& example : d.examples) json.value(example);
  json.end_array().end_object();
}

std::string chat_text(const ChatResult& chat) {
  const Delivery& d = chat.delivery;
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "chat: {} subscribers", chat.subscribers);
  if (chat.publishers > 0) {
    fmt::format_to(out, ", {} of them publish; {} messages signed ahead in {:.1f} s", chat.publishers,
                   chat.signed_ahead, chat.signing_seconds);
  }
  fmt::format_to(out, "\n  {} deliveries of {} ({:.0f} a second) of {} rows, {} of them by others: {}\n",
                 d.delivered(), d.expected(), deliveries_per_second(chat), d.rows, d.foreign_rows,
                 chat.passed() ? "each once, in order" : "FAILED");
  times_text(text, chat.publishers > 0 ? "fan-out, from the intended time" : "fan-out, from the request",
             chat.fanout_us);
  times_text(text, "fan-out, from the ack", chat.delivery_us);
  times_text(text, "catching up after a drop", chat.catch_up_us);
  if (chat.planned_drops + chat.lost_connections > 0) {
    fmt::format_to(out, "  dropped as planned {}, connections lost {} ({} as slow consumers), resumed {}\n",
                   chat.planned_drops, chat.lost_connections, chat.slow_closes, chat.resumed);
  }
  if (!chat.passed()) {
    for (const GroupDelivery& group : d.groups) {
      fmt::format_to(out, "  {} subscribers at {}: {} of {} delivered; {}{}\n", group.streams, group.name,
                     group.delivered, group.expected, faults_text(group.faults),
                     group.resets > 0 ? fmt::format(", reset {} times", group.resets) : "");
    }
    for (const std::string& example : d.examples) fmt::format_to(out, "  {}\n", example);
  }
  for (const auto& [code, count] : chat.errors) fmt::format_to(out, "  error {}: {}\n", code, count);
  return text;
}

std::vector<std::string> chat_failures(const ChatResult& chat) {
  const Delivery& d = chat.delivery;
  std::vector<std::string> reasons;
  if (d.faults().sum() > 0) reasons.push_back("subscribers: " + faults_text(d.faults()));
  if (d.contradicted > 0) {
    reasons.push_back(
        fmt::format("{} answers promised another sequence or timestamp than the row has", d.contradicted));
  }
  if (d.resets() > 0) reasons.push_back(fmt::format("the history began anew for {} subscribers", d.resets()));
  if (chat.unsettled > 0) {
    reasons.push_back(fmt::format("{} subscribers were away or behind at the end", chat.unsettled));
  }
  return reasons;
}

}  // namespace dlb::loadgen
