// pick_cost: what one pick and its release cost by policy and number of backends, in nanoseconds, through the
// Router as one worker calls it: `least_conn` by its heap, `random_two` and `prequal` by those that they
// draw, all others by a look at every backend. Below them the heap and a scan alone, over plain counts.
// Medians of interleaved rounds: quote ratios, not times.
//
//   make pick_cost && bench/pick_cost [ROUNDS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/rng.h"
#include "lb/options.h"
#include "lb/policy/least_conn_heap.h"
#include "lb/router.h"

namespace dlb::bench {
namespace {

constexpr std::size_t kSizes[] = {3, 10, 30, 64, 300, 1000, 10'000};

struct Subject {
  std::string name;
  lb::PolicyKind kind;
};

// One policy over n healthy backends, some of them busy.
struct Pool {
  Pool(const Subject& subject, std::size_t n) {
    options.policy_kind = subject.kind;
    options.stats_path = "";
    options.proxy_max_conns_per_host = 100'000;
    options.backends.resize(n);
    for (std::size_t i = 0; i < n; ++i) options.backends[i].id = "s" + std::to_string(i);
    set = lb::make_backend_set(options);
    for (const auto& backend : *set) backend->healthy = backend->accepting = true;
    router = std::make_unique<lb::Router>(options, *set, 1);
    const std::size_t held = std::min<std::size_t>(n, 3000);
    for (std::size_t i = 0; i < held; ++i) running.push_back(pick());
  }
  TimePoint now() { return TimePoint(std::chrono::seconds(1'000'000) + std::chrono::microseconds(++tick)); }
  std::uint32_t pick() { return router->pick(lb::TransportClass::Message, now()).backend; }

  // Nanoseconds a pick, with the release of one that has run as long, and its latency.
  double measure(int picks) {
    const TimePoint begin = monotonic_now();
    for (int i = 0; i < picks; ++i) {
      std::uint32_t& slot = running[static_cast<std::size_t>(i) % running.size()];
      router->record_latency(slot, std::chrono::microseconds(900 + i % 200), now());
      router->release_slot(slot);
      router->release_connection(slot, lb::TransportClass::Message);
      slot = pick();
    }
    return static_cast<double>((monotonic_now() - begin).count()) / picks;
  }

  lb::Options options;
  std::unique_ptr<lb::BackendSet> set;
  std::unique_ptr<lb::Router> router;
  std::vector<std::uint32_t> running;
  std::int64_t tick = 0;
};

// The two data structures alone: the best of n by a heap that is kept, and by looking at all.
double heap_alone(std::size_t n, int picks, bool scan) {
  Rng rng(1);
  std::vector<lb::LeastConnHeap::Key> keys(n);
  lb::LeastConnHeap heap(n);
  for (std::uint32_t i = 0; i < n; ++i) heap.put(i, keys[i]);
  std::uint64_t tick = 0, sum = 0;
  const TimePoint begin = monotonic_now();
  for (int i = 0; i < picks; ++i) {
    std::uint32_t best = 0;
    if (scan) {
      for (std::uint32_t j = 1; j < n; ++j) {
        const auto& a = keys[j];
        const auto& b = keys[best];
        if (a.in_flight < b.in_flight || (a.in_flight == b.in_flight && a.last_pick < b.last_pick)) best = j;
      }
    } else {
      best = heap.best();
    }
    ++keys[best].in_flight;
    keys[best].last_pick = ++tick;
    const auto done = static_cast<std::uint32_t>(rng.below(n));
    if (keys[done].in_flight > 0) --keys[done].in_flight;
    if (!scan) {
      heap.put(best, keys[best]);
      heap.put(done, keys[done]);
    }
    sum += best;
  }
  const double ns = static_cast<double>((monotonic_now() - begin).count()) / picks;
  return sum == ~std::uint64_t{0} ? 0 : ns;  // `sum` keeps the loop
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int picks_for(std::size_t n) { return n <= 100 ? 40'000 : n <= 1000 ? 4'000 : 400; }

void print_row(const char* name, const std::vector<double>& row) {
  std::printf("%-22s", name);
  for (const double ns : row) std::printf("%12.0f", ns);
  std::printf("\n");
}

int run(int rounds) {
  std::vector<Subject> subjects;
  for (const lb::PolicyKind kind : lb::kPolicyKinds)
    subjects.push_back({std::string(lb::policy_name(kind)), kind});
  std::vector<std::vector<double>> table(subjects.size());
  std::vector<double> heap_row, scan_row;
  for (const std::size_t n : kSizes) {
    std::vector<std::unique_ptr<Pool>> pools;
    for (const Subject& subject : subjects) pools.push_back(std::make_unique<Pool>(subject, n));
    std::vector<std::vector<double>> found(subjects.size());
    std::vector<double> heap, scan;
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < subjects.size(); ++i) found[i].push_back(pools[i]->measure(picks_for(n)));
      heap.push_back(heap_alone(n, picks_for(n), false));
      scan.push_back(heap_alone(n, picks_for(n), true));
    }
    for (std::size_t i = 0; i < subjects.size(); ++i) table[i].push_back(median(found[i]));
    heap_row.push_back(median(heap));
    scan_row.push_back(median(scan));
  }
  std::printf("ns a pick and release  ");
  for (const std::size_t n : kSizes) std::printf("%8zu bk.", n);
  std::printf("\n");
  for (std::size_t i = 0; i < subjects.size(); ++i) print_row(subjects[i].name.c_str(), table[i]);
  print_row("(heap alone)", heap_row);
  print_row("(scan alone)", scan_row);
  return 0;
}

}  // namespace
}  // namespace dlb::bench

int main(int argc, char** argv) { return dlb::bench::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 5); }
