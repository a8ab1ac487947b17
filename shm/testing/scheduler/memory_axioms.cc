// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/memory_axioms.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tenon/shm/base/check.h"
#include "tenon/shm/testing/scheduler/litmus.h"

namespace tenon {
namespace {

constexpr int kMaxEvents = 32;

// A relation between events.
class Relation {
 public:
  void Add(int a, int b) { rows_[a] |= uint32_t{1} << b; }
  bool Has(int a, int b) const { return (rows_[a] >> b & 1) != 0; }

  friend Relation operator|(Relation a, const Relation& b) {
    for (int i = 0; i < kMaxEvents; ++i) a.rows_[i] |= b.rows_[i];
    return a;
  }

  Relation Closure() const {
    Relation r = *this;
    for (int via = 0; via < kMaxEvents; ++via) {
      for (int a = 0; a < kMaxEvents; ++a) {
        if (r.Has(a, via)) r.rows_[a] |= r.rows_[via];
      }
    }
    return r;
  }

  bool Acyclic() const {
    const Relation closure = Closure();
    for (int a = 0; a < kMaxEvents; ++a) {
      if (closure.Has(a, a)) return false;
    }
    return true;
  }

 private:
  std::array<uint32_t, kMaxEvents> rows_ = {};
};

struct Event {
  LitmusOp op;
  int thread;  // -1: the word's first value.

  bool reads() const {
    return op.kind == LitmusOp::Kind::kRead || op.kind == LitmusOp::Kind::kAdd;
  }
  bool writes() const {
    return op.kind == LitmusOp::Kind::kWrite || op.kind == LitmusOp::Kind::kAdd;
  }
  bool fence() const { return op.kind == LitmusOp::Kind::kFence; }
  bool acquires() const {
    return op.order == std::memory_order_acquire ||
           op.order == std::memory_order_acq_rel ||
           (sequential() && op.kind != LitmusOp::Kind::kWrite);
  }
  bool releases() const {
    return op.order == std::memory_order_release ||
           op.order == std::memory_order_acq_rel ||
           (sequential() && op.kind != LitmusOp::Kind::kRead);
  }
  bool sequential() const { return op.order == std::memory_order_seq_cst; }
};

class Checker {
 public:
  explicit Checker(const LitmusProgram& program);
  std::set<LitmusOutcome> Outcomes();

 private:
  struct WordOrder {  // One modification order that the axioms accept.
    Relation eco;
    int last;
  };

  int size() const { return static_cast<int>(events_.size()); }
  void TryReads(size_t next);
  void TryOrders();
  bool FindValues();
  Relation HappensBefore() const;
  std::vector<WordOrder> OrdersOf(int word, const Relation& hb) const;
  std::optional<WordOrder> Accept(const std::vector<int>& order,
                                  const Relation& hb) const;
  bool SequentialOrderExists(const Relation& eco, const Relation& hb) const;
  void Combine(const std::vector<std::vector<WordOrder>>& orders,
               const Relation& hb);
  LitmusOutcome Outcome(const std::vector<int>& last) const;

  int words_;
  std::vector<Event> events_;
  std::vector<int> reads_;
  Relation sb_;
  std::array<int, kMaxEvents> rf_;  // The write that a read reads from.
  Relation rf_relation_;
  std::array<uint64_t, kMaxEvents> found_ = {};  // By a read.
  std::array<uint64_t, kMaxEvents> left_ = {};   // By a write.
  std::set<LitmusOutcome> outcomes_;
};

Checker::Checker(const LitmusProgram& program) : words_(CountWords(program)) {
  rf_.fill(-1);
  for (int w = 0; w < words_; ++w) {
    events_.push_back({Write(w, 0, std::memory_order_relaxed), -1});
  }
  int thread = 0;
  for (const LitmusThread& ops : program) {
    for (const LitmusOp& op : ops) events_.push_back({op, thread});
    ++thread;
  }
  TENON_CHECK(size() <= kMaxEvents, "too large a litmus program");
  for (int a = 0; a < size(); ++a) {
    if (events_[a].reads()) reads_.push_back(a);
    for (int b = a + 1; b < size(); ++b) {
      const bool initial = events_[a].thread < 0 && events_[b].thread >= 0;
      if (initial ||
          (events_[a].thread >= 0 && events_[a].thread == events_[b].thread)) {
        sb_.Add(a, b);
      }
    }
  }
}

std::set<LitmusOutcome> Checker::Outcomes() {
  TryReads(0);
  return outcomes_;
}

void Checker::TryReads(size_t next) {
  if (next == reads_.size()) return TryOrders();
  const int read = reads_[next];
  for (int w = 0; w < size(); ++w) {
    if (w == read || !events_[w].writes() ||
        events_[w].op.word != events_[read].op.word) {
      continue;
    }
    rf_[read] = w;
    TryReads(next + 1);
  }
}

void Checker::TryOrders() {
  rf_relation_ = {};
  for (const int r : reads_) rf_relation_.Add(rf_[r], r);
  if (!(sb_ | rf_relation_).Acyclic()) return;
  const Relation hb = HappensBefore();
  std::vector<std::vector<WordOrder>> orders;
  for (int w = 0; w < words_; ++w) {
    orders.push_back(OrdersOf(w, hb));
    if (orders.back().empty()) return;
  }
  TENON_CHECK(FindValues(), "values in a cycle");
  Combine(orders, hb);
}

// Follows reads-from, which has no cycle, until a fixed point.
bool Checker::FindValues() {
  std::array<bool, kMaxEvents> known = {};
  for (int round = 0; round < size(); ++round) {
    for (int e = 0; e < size(); ++e) {
      const Event& event = events_[e];
      if (event.reads()) {
        if (!known[rf_[e]]) continue;
        found_[e] = left_[rf_[e]];
      }
      left_[e] = event.op.value + (event.reads() ? found_[e] : 0);
      known[e] = true;
    }
  }
  return std::all_of(known.begin(), known.begin() + size(),
                     [](bool k) { return k; });
}

// (sb | sw)+, where a release (or a relaxed write after a release fence)
// synchronises with an acquire (or a relaxed read before an acquire fence) that
// reads from it or from a chain of RMWs that begins there.
Relation Checker::HappensBefore() const {
  Relation sw;
  for (const int read : reads_) {
    std::vector<int> sinks;
    if (events_[read].acquires()) sinks.push_back(read);
    for (int f = 0; f < size(); ++f) {
      if (events_[f].fence() && events_[f].acquires() && sb_.Has(read, f)) {
        sinks.push_back(f);
      }
    }
    for (int head = rf_[read];; head = rf_[head]) {
      for (int source = 0; source < size(); ++source) {
        const bool direct = source == head && events_[head].releases();
        const bool by_fence = events_[source].fence() &&
                              events_[source].releases() &&
                              sb_.Has(source, head);
        if (!direct && !by_fence) continue;
        for (const int sink : sinks) sw.Add(source, sink);
      }
      if (!events_[head].reads()) break;  // Not a RMW: the chain ends.
    }
  }
  return (sb_ | sw).Closure();
}

std::vector<Checker::WordOrder> Checker::OrdersOf(int word,
                                                  const Relation& hb) const {
  std::vector<int> order = {word};  // Its first value.
  for (int e = words_; e < size(); ++e) {
    if (events_[e].writes() && events_[e].op.word == word) order.push_back(e);
  }
  std::vector<WordOrder> accepted;
  do {
    if (auto word_order = Accept(order, hb)) accepted.push_back(*word_order);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return accepted;
}

std::optional<Checker::WordOrder> Checker::Accept(const std::vector<int>& order,
                                                  const Relation& hb) const {
  Relation eco;
  for (size_t i = 0; i < order.size(); ++i) {
    const int w = order[i];
    if (events_[w].reads() && order[i - 1] != rf_[w]) return std::nullopt;
    for (size_t j = i + 1; j < order.size(); ++j) eco.Add(w, order[j]);
    for (const int r : reads_) {
      if (rf_[r] != w) continue;
      eco.Add(w, r);
      for (size_t j = i + 1; j < order.size(); ++j) {
        if (order[j] != r) eco.Add(r, order[j]);
      }
    }
  }
  eco = eco.Closure();
  for (int a = 0; a < size(); ++a) {
    for (int b = 0; b < size(); ++b) {
      if (hb.Has(a, b) && eco.Has(b, a)) return std::nullopt;
    }
  }
  return WordOrder{eco, order.back()};
}

bool Checker::SequentialOrderExists(const Relation& eco,
                                    const Relation& hb) const {
  Relation scord;
  const auto stands_for = [&](int sc, int event, bool before) {
    if (sc == event) return events_[event].sequential();
    return events_[sc].fence() && events_[sc].sequential() &&
           (before ? hb.Has(sc, event) : hb.Has(event, sc));
  };
  for (int a = 0; a < size(); ++a) {
    for (int b = 0; b < size(); ++b) {
      if (!eco.Has(a, b)) continue;
      for (int first = 0; first < size(); ++first) {
        if (!stands_for(first, a, /*before=*/true)) continue;
        for (int second = 0; second < size(); ++second) {
          if (stands_for(second, b, /*before=*/false)) {
            scord.Add(first, second);
          }
        }
      }
    }
  }
  return (sb_ | rf_relation_ | scord).Acyclic();
}

void Checker::Combine(const std::vector<std::vector<WordOrder>>& orders,
                      const Relation& hb) {
  std::vector<size_t> picked(words_, 0);
  for (;;) {
    Relation eco;
    std::vector<int> last;
    for (int w = 0; w < words_; ++w) {
      eco = eco | orders[w][picked[w]].eco;
      last.push_back(orders[w][picked[w]].last);
    }
    if (SequentialOrderExists(eco, hb)) outcomes_.insert(Outcome(last));
    int w = 0;
    while (w < words_ && ++picked[w] == orders[w].size()) picked[w++] = 0;
    if (w == words_) return;
  }
}

LitmusOutcome Checker::Outcome(const std::vector<int>& last) const {
  std::vector<uint64_t> found;
  for (const int read : reads_) found.push_back(found_[read]);
  std::vector<uint64_t> at_end;
  for (const int write : last) at_end.push_back(left_[write]);
  return MakeOutcome(found, at_end);
}

}  // namespace

std::set<LitmusOutcome> AllowedOutcomes(const LitmusProgram& program) {
  return Checker(program).Outcomes();
}

}  // namespace tenon
