#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The protocol of the ledger, and an exhaustive check of it.

A process, the owner, has a block of memory and sends it to other processes. A
receiver may forward the block, and holds it as long as it wants. The owner
reuses the block once no process holds it. No lock and no reply message is
involved, any receiver may be killed between any two steps, and yet a block
that a live process holds is never reused, and a block that no process holds
always comes back.

The protocol

  Column. Each receiver writes one array, its column, which the owner can only
    read. A cell of it says how one process holds one block: {claims, held}.
  Attach. Before its first claim a process sends its column to the owner's
    socket, with its pidfd and one end of a socket pair, the lease. There is no
    reply.
  Claim. claims + 1 and held + 1, in one step; then the process checks that the
    block's generation is the one in the message, and that the owner has not
    shut its end of the lease. Only then it acknowledges the message.
  Release. held - 1. A sender that forwards releases after the acknowledgement.
  Reclaim. The owner tests a block that it has released itself: it receives what
    is in its socket and reads all cells twice; the socket must be empty still.
    If every cell was the same in both passes and held nothing, then between the
    passes there was an instant at which no process held the block. The owner
    raises the generation, so that claims of older messages fail from then on,
    and tests once more, for claims that were made before. Then the block is
    free.
  Detach. A process stops claiming through an attachment at any time. It hangs
    up the lease when it has released every claim that it made through it, and
    may attach anew, with another column, before or after that.
  End. An attachment has ended when its lease hangs up or its process dies. The
    owner then passes over that column, and over no other column of the
    process. It does so between tests: a test reads the same columns twice.
  Limit. Owner and receivers know how many attachments of one process count at
    a time. The process checks that before it attaches, and counts an attachment
    until the owner has shut its end of that lease. An attachment above the
    limit is a fault of its process, and is passed over.
  Refuse. An owner that cannot take an attachment for a reason of its own shuts
    its end of the lease and watches the other one: until that attachment ends
    no block that was offered to the process is reused, because the owner cannot
    see the process's cells. The process finds the lease shut, at its next claim
    at the latest; it detaches and attaches anew.
  Retire. A free block is used again, or its segment is retired: a retired
    segment's blocks are never handed out. Receivers may have it mapped for as
    long as they like. The block's number may go to a new segment; its
    generation goes on from where it was, so that no old message names the new
    block.

The model

There is one block. The owner sends it along a route of processes, which may
come back to a process. At each hop the receiver claims, acknowledges, forwards
and releases. A route that ends in "queue" ends in a queue of which processes 1
and 2 are consumers, who race for the message. The owner's own death reclaims
nothing and is not modelled. Each move below is one atomic step; every
interleaving is walked. A process has one thread for each hop at which it
receives.

  claims, held  by column: the cell
  att           by column: 0 unknown to the owner, 1 sent (in the owner's
                socket), 2 received, 3 refused, 4 refused as above the limit
  end           by column: 0 in use, 1 ended (the lease has hung up), 2 the
                owner has seen that
  cur           by process: which of its columns new claims go through
  gen           the block's generation; every message names generation 0
  take          by hop: 0 not sent, 1 in the ring, 2 acknowledged (for a queue:
                the word that the consumers compare and swap)
  pc, via, has  by thread: the next step; the column it claims through; whether
                it uses the block
  own, scan     the owner's next step: 0 send, 1 release, 2 and 3 test, 4 and 5
                test again, 6 free, 7 handed out, 8 retired, 9 its number is a
                new segment's; scan: what the running test has read

Checked: no live process has a good claim on a block that is free, handed out or
retired; a retired block is not handed out; while no process dies no claim
fails; no message is delivered twice; and when no step is left the owner has the
block.

  ledger.py           the right protocol holds: the walks of the ordinary test
  ledger.py --full    the same, with all events at once on all routes
  ledger.py --breaks  each wrong variant is caught
"""
import argparse
import itertools
import sys
import time
from collections import namedtuple

State = namedtuple('State', 'claims held att end cur gen take pc via has alive own scan failed won')
FREE, HANDED_OUT, RETIRED, RENUMBERED = 6, 7, 8, 9
DONE = 8  # pc of a thread that has finished.

# Events:
#   k  any process may be killed
#   r  the owner may refuse any attachment but the last of a process
#   d  any process may detach, once, and attach anew
#   a  only process 0 may, and all processes are attached at the start (else process 0 is)
#   1  of a process one attachment counts at a time (else two)
Walk = namedtuple('Walk', 'route events')
ROUTES = ((0, 1, 0), (0, 1, 2), (0, 'queue'), (0, 1, 0, 1, 0), (0, 1, 2, 0), (1, 0, 2, 1))
WALKS = ([Walk(route, events) for route in ROUTES for events in ('', 'k')] +
         [Walk((0, 1, 0), events) for events in ('d', 'd1', 'r', 'dr', 'dk', 'rk')] +
         [Walk((0, 1, 2), events) for events in ('a', 'd1', 'r')] + [Walk((0, 'queue'), 'r'), Walk((1, 0, 2, 1), 'a')])
FULL = [Walk(route, events) for events in ('d1', 'r', 'd', 'rk', 'dr', 'dk', 'drk') for route in ROUTES]

# Wrong variants: the events with which each is walked, and what it does.
BREAKS = {
    'ack_first': ('', 'a receiver acknowledges, then claims'),
    'drop_early': ('', 'a sender releases before the acknowledgement'),
    'no_claims': ('', 'a claim does not count up'),
    'one_pass': ('', 'the owner reads the columns once'),
    'no_gen': ('k', 'a claim does not check the generation'),
    'attach_late': ('', 'a process sends its column after the acknowledgement'),
    'drain_once': ('', 'the owner receives before the passes only'),
    'take_first': ('', 'a consumer takes the message of a queue, then claims'),
    'detach_holding': ('d', 'a process hangs up a lease through which it holds a claim'),
    'claim_ended': ('d', 'a process claims through an attachment that it has ended'),
    'reattach_unseen': ('d', 'a process that attaches anew does not send the new column'),
    'end_process': ('d', 'the end of one attachment ends all of its process'),
    'end_amid': ('a', 'the owner passes over a column in the middle of a test'),
    'limit_unchecked': ('d1', 'a process attaches without checking the limit'),
    'lease_unchecked': ('r', 'a process does not notice that the owner has shut its end of the lease'),
    'refused_unseen': ('r', 'the owner passes over an attachment that it has refused'),
    'refused_unwatched': ('r', 'the owner does not watch the lease of an attachment that it has refused'),
    'retire_held': ('', 'a segment is retired before its block is reclaimed'),
    'retire_early': ('k', 'a segment is retired after the first test, without a new generation'),
    'retired_reused': ('', 'a block of a retired segment is handed out'),
    'gen_reset': ('k', "the generations of a new segment's blocks begin anew"),
}


def put(t, i, v):
    return t[:i] + (v,) + t[i + 1:]


class Model:
    def __init__(self, walk, broken=None):
        route, events = walk
        self.broken = broken
        self.kills, self.refuses = 'k' in events, 'r' in events
        self.limit = 1 if '1' in events else 2
        self.queue = route[-1] == 'queue'
        self.hops = [(p,) for p in route if p != 'queue'] + ([(1, 2)] if self.queue else [])  # Receivers of each hop.
        self.threads = [(h, p) for h, ps in enumerate(self.hops) for p in ps]
        self.n = 1 + max(p for ps in self.hops for p in ps)
        self.detaching = range(self.n if 'd' in events else 1 if 'a' in events else 0)
        self.each = 2 if self.detaching or self.refuses else 1                                # Columns of a process.
        self.columns = [(p, i) for p in range(self.n) for i in range(self.each)]
        self.zeros = (0,) * len(self.columns)
        self.attached = tuple(2 if i == 0 and (p == 0 or 'a' in events) else 0 for p, i in self.columns)

    def first(self):
        n, h, t = (0,) * self.n, (0,) * len(self.hops), (0,) * len(self.threads)
        return State(self.zeros, self.zeros, self.attached, self.zeros, n, 0, h, t, t, t, (1,) * self.n, 0, (), 0, 0)

    # A process. Column number i of process p is p * each + i.

    def of(self, p):
        return range(p * self.each, (p + 1) * self.each)

    def claim(self, s, t, c):
        up = 0 if self.broken == 'no_claims' else 1
        return s._replace(claims=put(s.claims, c, s.claims[c] + up), held=put(s.held, c, s.held[c] + 1), via=put(s.via, t, c),
                          pc=put(s.pc, t, 2))

    def release(self, s, t, pc):
        c = s.via[t]
        return s._replace(held=put(s.held, c, s.held[c] - 1), via=put(s.via, t, 0), pc=put(s.pc, t, pc))

    def may_attach(self, s, p):
        return sum(s.att[c] > 0 and s.end[c] < 2 for c in self.of(p)) < self.limit or self.broken == 'limit_unchecked'

    def sees_shut(self, s, c):
        """Does the process find that the owner has shut its end of the lease?"""
        return s.att[c] > 2 and self.broken != 'lease_unchecked'

    def leave(self, s, c):
        """New claims go through the column after this one."""
        p, i = self.columns[c]
        return s._replace(cur=put(s.cur, p, max(s.cur[p], i + 1)))

    def may_drop(self, s, h):
        """May the sender of hop h release?"""
        return s.take[h] == 2 or not any(s.alive[p] for p in self.hops[h]) or self.broken == 'drop_early'

    def receiver(self, s, t):
        h, p = self.threads[t]
        at = lambda s, pc: s._replace(pc=put(s.pc, t, pc))
        has = lambda s, v: s._replace(has=put(s.has, t, v))
        ack = lambda s: s._replace(take=put(s.take, h, 2))
        take = lambda s: ack(s)._replace(won=s.won + races)
        last, pc, late = h + 1 == len(self.hops), s.pc[t], self.broken == 'attach_late'
        races = self.queue and last
        c = p * self.each + (0 if self.broken == 'claim_ended' else s.cur[p])
        if pc == 0:
            if s.take[h] != 1:
                return []
            if s.att[c] == 0 and not late and not (self.broken == 'reattach_unseen' and s.cur[p]):
                return [s._replace(att=put(s.att, c, 1))] if self.may_attach(s, p) else []
            if races and self.broken == 'take_first':
                return [at(take(s), 1)]
            return [at(ack(s), 1)] if self.broken == 'ack_first' and not races else [self.claim(s, t, c)]
        if pc == 1:  # Only in the wrong orders: acknowledged already, claims now.
            return [self.claim(s, t, c)]
        if pc == 2:
            if s.gen != 0 and self.broken != 'no_gen':
                return [at(s, 7)]
            if self.sees_shut(s, s.via[t]):
                return [self.release(self.leave(s, s.via[t]), t, 0)]
            return [at(s, 3) if races else at(has(s, 1), 3)]
        if pc == 3:
            if not races:
                return [at(ack(s), 4)]
            if self.broken == 'take_first':
                return [at(has(s, 1), 6)]
            return [at(has(take(s), 1), 6)] if s.take[h] == 1 else [self.release(s, t, DONE)]
        if pc == 4:
            if late and s.att[c] == 0:
                return [s._replace(att=put(s.att, c, 1))]
            return [at(s, 6)] if last else [at(s._replace(take=put(s.take, h + 1, 1)), 5)]
        if pc == 5:
            return [at(s, 6)] if self.may_drop(s, h + 1) else []
        if pc == 6:
            return [self.release(has(s, 0), t, DONE)]
        if pc == 7:  # The block was reclaimed: the message is acknowledged all the same, and the loss reported.
            if races and s.take[h] == 2 and self.broken != 'take_first':  # Another consumer does that.
                return [self.release(s, t, DONE)]
            return [self.release(take(s) if s.take[h] == 1 else s, t, DONE)._replace(failed=1)]
        return []

    def attachments(self, s, p):
        """Moves by which process p detaches."""
        now, out = s.cur[p], []
        c = p * self.each + now
        if now + 1 < self.each and s.att[c] and (p in self.detaching or self.sees_shut(s, c)):
            out.append(self.leave(s, c))
        for c in range(p * self.each, p * self.each + now):
            if not s.end[c] and (not s.held[c] or self.broken == 'detach_holding'):
                out.append(s._replace(end=put(s.end, c, 1)))
        return out

    def kill(self, s, p):
        idle = lambda v, idle: tuple(idle if q == p else x for (_, q), x in zip(self.threads, v))
        end = tuple(1 if q == p and a and not e else e for (q, _), a, e in zip(self.columns, s.att, s.end))
        return s._replace(alive=put(s.alive, p, 0), end=end, cur=put(s.cur, p, 0), pc=idle(s.pc, DONE), via=idle(s.via, 0),
                          has=idle(s.has, 0))

    # The owner.

    def ended(self, s):
        """Moves by which the owner sees that an attachment has ended."""
        if s.own not in (2, 4) and not (s.own < 2 and self.limit == 1) and not (s.own in (3, 5) and self.broken == 'end_amid'):
            return []
        out = []
        for c, (p, _) in enumerate(self.columns):
            if s.end[c] == 1 and s.att[c] > 1 and not (s.att[c] == 3 and self.broken == 'refused_unwatched'):
                over = [d for d in self.of(p) if s.att[d] > 1] if self.broken == 'end_process' else [c]
                change = lambda t, v: tuple(v if d in over else x for d, x in enumerate(t))
                out.append(s._replace(end=change(s.end, 2), claims=change(s.claims, 0)))
        return out

    def receive(self, s):
        """The states after the owner has received what is in its socket."""
        outcomes = []
        for c, (p, i) in enumerate(self.columns):
            before = sum(s.att[d] in (1, 2) and s.end[d] < 2 for d in range(p * self.each, c))
            outcomes.append((s.att[c],) if s.att[c] != 1 else (4,) if before >= self.limit else
                            (2, 3) if self.refuses and i + 1 < self.each else (2,))
        return [s._replace(att=att) for att in itertools.product(*outcomes)]

    def blind(self, s):
        """Is there a process whose cells the owner cannot see?"""
        return any(a == 3 and e < 2 for a, e in zip(s.att, s.end)) and self.broken != 'refused_unseen'

    def passes(self, s, last, seen, columns):
        """A pass may read the columns in either order."""
        return [s._replace(own=s.own | 1, scan=(last, seen, order)) for order in {columns, columns[::-1]}]

    def test(self, s):
        last, seen, left = s.scan
        again = s._replace(own=s.own - 1, scan=())
        if left:
            c, rest = left[0], left[1:]
            if s.end[c] == 2:  # Only if the owner passes over it in the middle of a test.
                return [s._replace(scan=(last, seen, rest))]
            if s.held[c] or seen[c] not in (None, s.claims[c]):
                return [again]
            return [s._replace(scan=(last, put(seen, c, s.claims[c]), rest))]
        if not last:
            return self.passes(s, True, seen, tuple(c for c, v in enumerate(seen) if v is not None))
        if 1 in s.att and self.broken != 'drain_once' or self.blind(s):
            return [again]
        if s.own == 5:
            return [s._replace(own=FREE, scan=())]
        if self.broken == 'retire_early':
            return [s._replace(own=RETIRED, scan=())]
        return [s._replace(own=4, gen=1, scan=())]

    def owner(self, s):
        return self.ended(s) + self.next(s)

    def next(self, s):
        o = s.own
        if o == 0:
            return [s._replace(take=put(s.take, 0, 1), own=1)]
        if o == 1:
            return [s._replace(own=2)] if self.may_drop(s, 0) else []
        if o == 2 and self.broken == 'retire_held':
            return [s._replace(own=RETIRED)]
        if o in (2, 4):
            out = []
            for r in self.receive(s):
                columns = tuple(c for c, (a, e) in enumerate(zip(r.att, r.end)) if a == 2 and e < 2)
                out += self.passes(r, self.broken == 'one_pass', (None,) * len(self.columns), columns)
            return out
        if o in (3, 5):
            return self.test(s)
        if o == FREE:
            return [s._replace(own=HANDED_OUT), s._replace(own=RETIRED)]
        if o == RETIRED:
            return [s._replace(own=HANDED_OUT if self.broken == 'retired_reused' else RENUMBERED,
                               gen=0 if self.broken == 'gen_reset' else s.gen)]
        return []

    # All of them.

    def steps(self, s):
        """The moves of the receivers, but for kills."""
        out = []
        for t, (_, p) in enumerate(self.threads):
            if s.alive[p]:
                out += self.receiver(s, t)
        if self.each > 1 and s.own < FREE:  # Later attachments change nothing.
            for p in range(self.n):
                if s.alive[p]:
                    out += self.attachments(s, p)
        return out

    def leaks(self, s):
        """No receiver has a move left. Does the owner alone never get the block back?"""
        seen, stack = {s}, [s]
        for s in stack:
            if s.own >= FREE or self.steps(s):
                return False
            new = set(self.owner(s)) - seen
            seen |= new
            stack += new
        return True

    def wrong(self, s, owner, steps):
        """What is wrong with a state that has these moves."""
        if s.own >= FREE and any(s.has):
            return 'RETIRED WHILE HELD' if s.own in (RETIRED, RENUMBERED) else 'REUSED WHILE HELD'
        if s.own == RETIRED and any(t.own == HANDED_OUT for t in owner):
            return 'HANDED OUT AFTER IT WAS RETIRED'
        if s.failed and all(s.alive):
            return 'A CLAIM FAILED THOUGH NO PROCESS DIED'
        if s.won > 1:
            return 'DELIVERED TWICE'
        if 0 < s.own < FREE and not s.scan and not steps and self.leaks(s):
            return 'LEAKED'
        return None

    def explore(self):
        """How many states there are, and what is wrong with one of them."""
        start = self.first()
        seen, stack = {start}, [start]
        while stack:
            s = stack.pop()
            owner, steps = self.owner(s), self.steps(s)
            wrong = self.wrong(s, owner, steps)
            if wrong:
                return len(seen), wrong
            if self.kills and s.own < FREE:
                steps += [self.kill(s, p) for p in range(self.n) if s.alive[p]]
            for t in owner + steps:
                if t not in seen:
                    seen.add(t)
                    stack.append(t)
        return len(seen), None


def name_of(walk):
    words = {'k': 'kills', 'r': 'refusals', 'd': 'detaching', 'a': 'process 0 detaching', '1': 'one attachment at a time'}
    return ': '.join(['-'.join(map(str, walk.route)), ', '.join(words[e] for e in walk.events) or 'no events'])


def check(walks):
    """The right protocol holds."""
    total, good = 0, True
    for walk in walks:
        began = time.process_time()
        states, wrong = Model(walk).explore()
        print(f"{name_of(walk)}: {states} states, {wrong or 'all hold'}, {time.process_time() - began:.1f} s", flush=True)
        total, good = total + states, good and not wrong
    print(f'{total} states, {time.process_time():.0f} s of processor time')
    return good


def check_breaks():
    """Each wrong variant is caught on some route."""
    good = True
    for broken, (events, meaning) in BREAKS.items():
        for walk in (Walk(route, events) for route in ROUTES):
            _, wrong = Model(walk, broken).explore()
            if wrong:
                break
        print(f"{broken} ({meaning}): {f'{wrong} on {name_of(walk)}' if wrong else 'NOT CAUGHT'}", flush=True)
        good = good and bool(wrong)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--full', action='store_true', help='all events at once on all routes; takes long')
    parser.add_argument('--breaks', action='store_true', help='the wrong variants')
    options = parser.parse_args()
    good = check_breaks() if options.breaks else check(WALKS + FULL if options.full else WALKS)
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    main()
