#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The protocol of the ledger, and an exhaustive check of it.

A process, the owner, sends a block of its memory to other processes. A receiver
may forward the block, and holds it for as long as it wants. The owner reuses
the block once no process holds it. The protocol takes no lock and awaits no
reply; any receiver may be killed between any two steps. Yet a block that a live
process holds is never reused, and a block that no process holds is reclaimed.

THE PROTOCOL

Column. Each receiver writes an array, its column; the owner can only read it. A
  cell of the column records the claims of a process on a block: {claims, held}.
Attach. Before its first claim a process sends its column to the owner's socket,
  with its pidfd and one end of a socket pair, the lease. There is no reply.
Claim. Claims + 1 and held + 1, in one step. Then the process checks that the
  block's generation is the one in the message, and that the owner has not shut
  its end of the lease. Only then it acknowledges the message. If the generation
  differs, the data are lost: the process releases, acknowledges and reports it.
Release. Held - 1. A process that forwards the block releases it after the next
  receiver has acknowledged, or died.
Reclaim. The owner tests a block that it has released itself. It drains its
  socket and reads all columns twice; the socket must still be empty. If every
  cell was the same in both passes and had no claim held, no process held the
  block at some instant between the passes. The owner then raises the
  generation, so that claims by older messages fail, and tests again, because of
  claims that were made before that. Then the block is free.
Detach. A process may stop claiming through an attachment at any time. It hangs
  up the lease when it has released every claim made through it. It may attach
  anew before or after that, with another column.
End. An attachment ends when its lease hangs up or its process dies. The owner
  then ignores that column, and no other column of that process. It begins to do
  so between tests: both passes of a test read the same columns.
Limit. Owner and receivers know how many attachments of one process count at a
  time; one that has ended does not count. A process checks the limit before it
  attaches. The owner polls the leases before it refuses an attachment for the
  limit. It refuses an attachment above the limit as described below: a process
  may have lost count.
Refuse. An owner that cannot take an attachment, for a reason that the process
  could not know, shuts its end of the lease, counts the refusal in a word that
  all processes read, but still watches for the end of that attachment. Until
  then it reuses no block that it had handed out before the refusal, because it
  cannot see the process's cells. Each claim reads the word, and a change makes
  the process poll its lease. If that is shut the claim fails, the message stays
  unacknowledged, and the process detaches and attaches anew. A process that
  does not claim sees the word late. But a block that was handed out after the
  refusal is reused as ever: a claim on it follows a message, the message
  follows the refusal, so the claim reads the new word and fails. It does not
  matter which process forwarded the message.
Retire. A free block is handed out again, or its segment is retired: then its
  blocks are never handed out. Receivers may keep it mapped. The block's number
  may be reused in a new segment, where its generation continues: an old message
  names no block of the new segment.

THE MODEL

One block travels a route of processes, which may return to a process. At each
hop a process receives, in a separate thread: it claims, acknowledges,
forwards and releases. A route that ends in "queue" ends in a queue whose
consumers, processes 1 and 2, race for the message. The death of the owner
reclaims nothing and is not modelled. Each move is one atomic step, and every
interleaving of the moves is walked.

  claims, held  by column: the cell
  att           by column: 0 unknown to the owner, 1 sent (in the owner's
                socket), 2 received, 3 refused
  end           by column: 0 in use, 1 the attachment has ended, 2 the owner has
                seen that
  late          by column: 1 if the block was sent after the owner refused it
  cur           by process: the column that its new claims go through
  gen           the generation of the block; every message names generation 0
  take          by hop: 0 not sent, 1 in the ring, 2 acknowledged (for a queue:
                the word that its consumers compare and swap)
  pc, via, has  by thread: its next step; the column that its claim went
                through; whether it uses the block
  own, scan     the owner's next step: 0 send, 1 release, 2 and 3 test, 4 and 5
                test again, 6 free, 7 handed out, 8 retired, 9 the number given
                to a new segment; the reads of the running test
  failed, won   whether a claim has failed; messages taken from the queue

Checked: no live process has a valid claim on a block that is free, handed out
or retired. A retired block is not handed out. While no process dies no claim
fails. No message is taken twice. When no receiver has a step left the owner
reclaims the block; if it was sent after each refusal, the owner does so though
refused processes never notice that they were.

  ledger.py           the correct protocol holds (923,000 states)
  ledger.py --full    the same, with more events at once on each route
  ledger.py --breaks  each wrong variant is detected
"""

import argparse
import gc
import itertools
import sys
import time
from collections import namedtuple

State = namedtuple(
    "State",
    "claims held att end late cur gen take pc via has alive own scan failed won",
)
FREE, HANDED_OUT, RETIRED, RENUMBERED = 6, 7, 8, 9
DONE = 8  # pc of a thread that has finished.

# Events of a walk, in any order and at any time.
EVENTS = {
    "k": "kills",  # Of any process.
    "r": "refusals",  # Of any attachment but the last of a process.
    "d": "detaching",  # By any process, once; it may attach anew.
    "a": "process 0 detaching",  # And all are attached at first; else only 0.
    "1": "one attachment at a time",  # The limit of a process; else two.
    "b": "attachments before the block",  # Of all; for an earlier block.
    "2": "two refusals of a process",  # At most; else one.
}
Walk = namedtuple("Walk", "route events")
ROUTES = (
    (0, 1, 0),
    (0, 1, 2),
    (1, 0, 2, 1),
    (0, "queue"),
    (0, 1, 0, 1, 0),
    (0, 1, 2, 0),
)
WALKS = (
    [Walk(route, events) for route in ROUTES for events in ("", "k")]
    + [Walk((0, 1, 0), events) for events in ("d", "d1", "r", "dr", "dk", "rk")]
    + [Walk((0, 1, 2), events) for events in ("a", "d1", "r")]
    + [Walk((1, 0, 2, 1), events) for events in ("a", "d1")]
    + [Walk((0, "queue"), "r")]
    + [Walk(route, "br") for route in ((0, 1), (0, 1, 0), (0, "queue"))]
    + [Walk((0, 1), "br2")]
)
FULL = (
    [Walk(route, e) for e in ("d1", "r", "rk", "d") for route in ROUTES]
    + [Walk((0, 1, 0), events) for events in ("dk1", "drk", "brk", "br2")]
    + [Walk((0, 1, 2), "br")]
)

# Wrong variants: the events with which each is walked, and a description.
BREAKS = {
    "ack_first": ("", "a receiver acknowledges, then claims"),
    "drop_early": ("", "a sender releases before the acknowledgement"),
    "no_claims": ("", "a claim does not count up"),
    "one_pass": ("", "the owner reads the columns once"),
    "no_gen": ("k", "a claim does not check the generation"),
    "attach_late": ("", "a process attaches after the acknowledgement"),
    "drain_once": ("", "the owner receives before the passes only"),
    "take_first": ("", "a consumer takes a queue's message, then claims"),
    "detach_holding": ("d", "a process hangs up while it holds a claim"),
    "claim_ended": ("d", "a process claims through an ended attachment"),
    "reattach_unseen": ("d", "a process attaches anew, but does not send"),
    "end_process": ("d", "one ended attachment ends all of its process"),
    "end_amid": ("a", "the owner ignores a column during a test"),
    "limit_unchecked": ("d1", "a process does not check the limit"),
    "limit_unseen": ("d1", "the owner counts ended attachments it has not seen"),
    "lease_unchecked": ("r", "a process does not see that its lease is shut"),
    "refused_unseen": ("r", "the owner ignores refused attachments"),
    "refused_all": ("br", "the owner reclaims nothing while one is refused"),
    "refused_at_release": ("br", "the owner counts refusals at the release"),
    "refused_first": ("br2", "a process's later refusals count as its first"),
    "refused_forwarded": ("r", "the owner ignores all but direct receivers"),
    "refusal_overlooked": ("br", "a claim may read an old count of refusals"),
    "refused_unwatched": ("r", "the owner does not watch refused attachments"),
    "retire_held": ("", "a segment is retired before its block is reclaimed"),
    "retire_early": ("k", "a segment is retired without a new generation"),
    "retired_reused": ("", "a block of a retired segment is handed out"),
    "gen_reset": ("k", "generations begin anew in a new segment"),
}


def put(t, i, v):
    return t[:i] + (v,) + t[i + 1 :]


class Model:
    def __init__(self, walk, broken=None):
        route, events = walk
        self.broken = broken
        self.kills, self.refuses = "k" in events, "r" in events
        self.limit = 1 if "1" in events else 2
        self.queue = route[-1] == "queue"
        # By hop: its receivers.
        self.hops = [(p,) if p != "queue" else (1, 2) for p in route]
        self.threads = [(h, p) for h, ps in enumerate(self.hops) for p in ps]
        n = self.n = 1 + max(p for _, p in self.threads)
        all_at_first = "a" in events
        self.detaching = range(n if "d" in events else int(all_at_first))
        # Columns of a process; column i of process p is p * each + i.
        self.each = 2 if self.detaching or self.refuses else 1
        self.each += "2" in events
        self.columns = [(p, i) for p in range(n) for i in range(self.each)]
        self.before = "b" in events
        early = lambda p, i: i == 0 and (p == 0 or all_at_first)
        sent = lambda i: int(i == 0 and self.before)
        self.att = tuple(2 if early(p, i) else sent(i) for p, i in self.columns)

    def first(self):
        by_column, by_process = (0,) * len(self.columns), (0,) * self.n
        by_hop, by_thread = (0,) * len(self.hops), (0,) * len(self.threads)
        return State(
            claims=by_column,
            held=by_column,
            att=self.att,
            end=by_column,
            late=by_column,
            cur=by_process,
            gen=0,
            take=by_hop,
            pc=by_thread,
            via=by_thread,
            has=by_thread,
            alive=(1,) * self.n,
            own=0,
            scan=(),
            failed=0,
            won=0,
        )

    # A receiver.

    def of(self, p):
        return range(p * self.each, (p + 1) * self.each)

    def claim(self, s, t, c):
        up = 0 if self.broken == "no_claims" else 1
        return s._replace(
            claims=put(s.claims, c, s.claims[c] + up),
            held=put(s.held, c, s.held[c] + 1),
            via=put(s.via, t, c),
            pc=put(s.pc, t, 2),
        )

    def release(self, s, t, pc=DONE):
        c = s.via[t]
        return s._replace(
            held=put(s.held, c, s.held[c] - 1),
            via=put(s.via, t, 0),
            has=put(s.has, t, 0),
            pc=put(s.pc, t, pc),
        )

    def may_attach(self, s, p):
        count = sum(s.att[c] > 0 and not s.end[c] for c in self.of(p))
        return count < self.limit or self.broken == "limit_unchecked"

    def finds_shut(self, s, c):
        """Has the owner shut its end of the lease, and does that show?"""
        return s.att[c] > 2 and self.broken != "lease_unchecked"

    def must_find_shut(self, s, c):
        """Does a claim that follows the message see that the lease is shut?"""
        return s.late[c] and self.broken != "refusal_overlooked"

    def leave(self, s, c):
        """New claims go through the next column."""
        p, i = self.columns[c]
        return s._replace(cur=put(s.cur, p, max(s.cur[p], i + 1)))

    def may_drop(self, s, h):
        """May the sender of hop h release?"""
        dead = not any(s.alive[p] for p in self.hops[h])
        return s.take[h] == 2 or dead or self.broken == "drop_early"

    def receiver(self, s, t):
        """The moves of a thread."""
        h, p = self.threads[t]
        pc, last, wrong = s.pc[t], h + 1 == len(self.hops), self.broken
        races = self.queue and last
        c = p * self.each + (0 if wrong == "claim_ended" else s.cur[p])
        at = lambda s, pc: s._replace(pc=put(s.pc, t, pc))
        use = lambda s: s._replace(has=put(s.has, t, 1))
        ack = lambda s: s._replace(take=put(s.take, h, 2), won=s.won + races)
        attach = lambda s: s._replace(att=put(s.att, c, 1))
        if pc == 0:
            if s.take[h] != 1:
                return []
            unseen = wrong == "reattach_unseen" and s.cur[p]
            if s.att[c] == 0 and wrong != "attach_late" and not unseen:
                return [attach(s)] if self.may_attach(s, p) else []
            if wrong == ("take_first" if races else "ack_first"):
                return [at(ack(s), 1)]
            return [self.claim(s, t, c)]
        if pc == 1:  # Only in the wrong order: already acknowledged.
            return [self.claim(s, t, c)]
        if pc == 2:
            if s.gen != 0 and wrong != "no_gen":
                return [at(s, 7)]
            out = [] if self.must_find_shut(s, s.via[t]) else [
                at(s if races else use(s), 3)
            ]
            if self.finds_shut(s, s.via[t]):
                out.append(self.release(self.leave(s, s.via[t]), t, 0))
            return out
        if pc == 3:
            if not races:
                return [at(ack(s), 4)]
            if wrong == "take_first":
                return [at(use(s), 6)]
            won = s.take[h] == 1
            return [at(use(ack(s)), 6) if won else self.release(s, t)]
        if pc == 4:
            if s.att[c] == 0 and wrong == "attach_late":
                return [attach(s)]
            if last:
                return [at(s, 6)]
            return [at(s._replace(take=put(s.take, h + 1, 1)), 5)]
        if pc == 5:
            return [at(s, 6)] if self.may_drop(s, h + 1) else []
        if pc == 6:
            return [self.release(s, t)]
        if pc == 7:  # The data are lost. Of a queue, one consumer reports it.
            if races and s.take[h] == 2 and wrong != "take_first":
                return [self.release(s, t)]
            lost = ack(s) if s.take[h] == 1 else s
            return [self.release(lost, t)._replace(failed=1)]
        return []

    def detach(self, s, p):
        """The moves by which a process detaches."""
        out, first, now = [], p * self.each, p * self.each + s.cur[p]
        if s.cur[p] + 1 < self.each and s.att[now]:
            if p in self.detaching or self.finds_shut(s, now):
                out.append(self.leave(s, now))
        for c in range(first, now):
            may_hang_up = not s.held[c] or self.broken == "detach_holding"
            if not s.end[c] and may_hang_up:
                out.append(s._replace(end=put(s.end, c, 1)))
        return out

    def kill(self, s, p):
        pc, via, has, end = list(s.pc), list(s.via), list(s.has), list(s.end)
        for t, (_, q) in enumerate(self.threads):
            if q == p:
                pc[t], via[t], has[t] = DONE, 0, 0
        for c in self.of(p):
            if s.att[c] and not s.end[c]:
                end[c] = 1
        return s._replace(
            alive=put(s.alive, p, 0),
            end=tuple(end),
            cur=put(s.cur, p, 0),
            pc=tuple(pc),
            via=tuple(via),
            has=tuple(has),
        )

    # The owner.

    def see_ends(self, s):
        """The moves by which the owner sees that an attachment has ended."""
        # Before a test; or earlier, if a process may be waiting for it.
        if not (
            s.own in (2, 4)
            or s.own < 2 and (self.limit == 1 or self.before)
            or s.own in (3, 5) and self.broken == "end_amid"
        ):
            return []
        out = []
        for c, (p, _) in enumerate(self.columns):
            watched = s.att[c] != 3 or self.broken != "refused_unwatched"
            if s.end[c] != 1 or s.att[c] < 2 or not watched:
                continue
            all_of_it = self.broken == "end_process"
            end, claims = list(s.end), list(s.claims)
            for d in self.of(p) if all_of_it else [c]:
                if s.att[d] > 1:
                    end[d], claims[d] = 2, 0  # Not read from now on.
            out.append(s._replace(end=tuple(end), claims=tuple(claims)))
        return out

    def receive(self, s):
        """The states in which all that was sent has been received."""
        outcomes = []
        for c, (p, i) in enumerate(self.columns):
            before = range(p * self.each, c)
            gone = 2 if self.broken == "limit_unseen" else 1
            count = sum(s.att[d] in (1, 2) and s.end[d] < gone for d in before)
            if s.att[c] != 1:
                outcomes.append((s.att[c],))
            elif count >= self.limit:
                outcomes.append((3,))
            else:
                may_refuse = self.refuses and i + 1 < self.each
                outcomes.append((2, 3) if may_refuse else (2,))
        return [s._replace(att=att) for att in itertools.product(*outcomes)]

    def refused(self, s):
        """The columns that the owner has refused."""
        return tuple(int(a == 3) for a in s.att)

    def withholds(self, s, c):
        """May a process hold the block through column c, which is not read?"""
        p, wrong = self.columns[c][0], self.broken
        if s.att[c] != 3 or s.end[c] > 1 or wrong == "refused_unseen":
            return False
        if wrong == "refused_forwarded" and p not in self.hops[0]:
            return False
        if wrong == "refused_first" and any(s.late[d] for d in self.of(p)):
            return False
        return not s.late[c] or wrong == "refused_all"

    def blind(self, s):
        """May a process hold the block whose cells the owner cannot see?"""
        return any(self.withholds(s, c) for c in range(len(self.columns)))

    def read(self, s, last, seen, columns):
        """Begins a pass, which may read the columns in either order."""
        orders = {columns, columns[::-1]}
        return [s._replace(own=s.own | 1, scan=(last, seen, o)) for o in orders]

    def begin_test(self, s):
        out = []
        for r in self.receive(s):
            state = enumerate(zip(r.att, r.end))
            columns = tuple(c for c, (a, e) in state if a == 2 and e < 2)
            nothing = (None,) * len(self.columns)
            out += self.read(r, self.broken == "one_pass", nothing, columns)
        return out

    def test(self, s):
        last, seen, left = s.scan
        again = s._replace(own=s.own - 1, scan=())
        if left:
            c, rest = left[0], left[1:]
            if s.end[c] == 2:  # Only for end_amid.
                return [s._replace(scan=(last, seen, rest))]
            if s.held[c] or seen[c] not in (None, s.claims[c]):
                return [again]
            return [s._replace(scan=(last, put(seen, c, s.claims[c]), rest))]
        if not last:
            columns = tuple(c for c, v in enumerate(seen) if v is not None)
            return self.read(s, True, seen, columns)
        if 1 in s.att and self.broken != "drain_once" or self.blind(s):
            return [again]
        if s.own == 5:
            return [s._replace(own=FREE, scan=())]
        if self.broken == "retire_early":
            return [s._replace(own=RETIRED, scan=())]
        return [s._replace(own=4, gen=1, scan=())]

    def next_step(self, s):
        o, out = s.own, []
        if o < 2 and (self.limit == 1 or self.before) and 1 in s.att:
            out = self.receive(s)
        if o == 0:
            sent = s._replace(take=put(s.take, 0, 1), own=1)
            return out + [sent._replace(late=self.refused(s))]
        if o == 1 and self.may_drop(s, 0):
            at_release = self.broken == "refused_at_release"
            late = self.refused(s) if at_release else s.late
            return out + [s._replace(late=late, own=2)]
        if o == 1:
            return out
        if o == 2 and self.broken == "retire_held":
            return [s._replace(own=RETIRED)]
        if o in (2, 4):
            return self.begin_test(s)
        if o in (3, 5):
            return self.test(s)
        if o == FREE:
            return [s._replace(own=HANDED_OUT), s._replace(own=RETIRED)]
        if o == RETIRED and self.broken == "retired_reused":
            return [s._replace(own=HANDED_OUT)]
        if o == RETIRED:
            gen = 0 if self.broken == "gen_reset" else s.gen
            return [s._replace(own=RENUMBERED, gen=gen)]
        return []

    # All of them.

    def owner(self, s):
        return self.see_ends(s) + self.next_step(s)

    def at_hops(self, s):
        """The moves of live receivers at their hops."""
        out = []
        for t, (_, p) in enumerate(self.threads):
            if s.alive[p]:
                out += self.receiver(s, t)
        return out

    def receivers(self, s):
        """The moves of live receivers, but for their deaths."""
        out = self.at_hops(s)
        if self.each > 1 and s.own < FREE:  # Detaching changes nothing later.
            for p in range(self.n):
                if s.alive[p]:
                    out += self.detach(s, p)
        return out

    def leaks(self, s, moves_of_receivers):
        """No receiver has such a move. Can the owner not go on by itself?"""
        seen, todo = {s}, [s]
        for s in todo:
            if s.own >= FREE or moves_of_receivers(s):
                return False
            new = set(self.owner(s)) - seen
            seen |= new
            todo += new
        return True

    def what_is_wrong(self, s, owner, receivers):
        """None, or what is wrong with a state, of which these are the moves."""
        if s.own >= FREE and any(s.has):
            how = "RETIRED" if s.own in (RETIRED, RENUMBERED) else "REUSED"
            return how + " WHILE HELD"
        if s.own == RETIRED and any(t.own == HANDED_OUT for t in owner):
            return "HANDED OUT AFTER IT WAS RETIRED"
        if s.failed and all(s.alive):
            return "A CLAIM FAILED THOUGH NO PROCESS DIED"
        if s.won > 1:
            return "TAKEN TWICE"
        idle = 0 < s.own < FREE and not s.scan
        if idle and not receivers and self.leaks(s, self.receivers):
            return "LEAKED"
        done = idle and s.own > 1 and not self.at_hops(s)
        if done and self.late_only(s) and self.leaks(s, self.at_hops):
            return "WITHHELD THOUGH SENT AFTER EACH REFUSAL"
        return None

    def late_only(self, s):
        """Are there refused attachments, all from before the block was sent?"""
        live = [l for a, e, l in zip(s.att, s.end, s.late) if a == 3 and e < 2]
        return any(live) and all(live)

    def explore(self):
        """How many states were seen, and what is wrong with the last one."""
        start = self.first()
        seen, todo = {start}, [start]
        while todo:
            s = todo.pop()
            owner, receivers = self.owner(s), self.receivers(s)
            wrong = self.what_is_wrong(s, owner, receivers)
            if wrong:
                return len(seen), wrong
            moves = owner + receivers
            if self.kills and s.own < FREE:  # Deaths change nothing later.
                moves += [self.kill(s, p) for p in range(self.n) if s.alive[p]]
            for t in moves:
                if t not in seen:
                    seen.add(t)
                    todo.append(t)
        return len(seen), None


def name_of(walk):
    events = ", ".join(EVENTS[e] for e in walk.events)
    route = "-".join(map(str, walk.route))
    return f"{route} with {events}" if events else route


def check(walks):
    """Does the right protocol hold?"""
    total, good = 0, True
    for walk in walks:
        states, wrong = Model(walk).explore()
        found = wrong or "all hold"
        print(f"{name_of(walk)}: {states} states, {found}", flush=True)
        total, good = total + states, good and not wrong
    print(f"{len(walks)} walks, {total} states, {time.process_time():.0f} s")
    return good


def check_breaks():
    """Is each wrong variant caught, on one of the routes at least?"""
    caught = 0
    for broken, (events, meaning) in BREAKS.items():
        for walk in (Walk(route, events) for route in ROUTES):
            _, wrong = Model(walk, broken).explore()
            if wrong:
                break
        found = f"{wrong} on {name_of(walk)}" if wrong else "NOT CAUGHT"
        print(f"{broken} ({meaning}): {found}", flush=True)
        caught += bool(wrong)
    print(f"{caught} of {len(BREAKS)} caught, {time.process_time():.0f} s")
    return caught == len(BREAKS)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="more walks")
    parser.add_argument("--breaks", action="store_true", help="wrong variants")
    options = parser.parse_args()
    gc.disable()  # There are no cycles, and each pass walks all states.
    if options.breaks:
        good = check_breaks()
    elif options.full:
        good = check(WALKS + [walk for walk in FULL if walk not in WALKS])
    else:
        good = check(WALKS)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
