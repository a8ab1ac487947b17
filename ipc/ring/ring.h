// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingProducer and RingReader: records of a fixed size from one process to one
// or more others through shared memory, without system calls while all keep up.
//
//   TENON_ASSIGN_OR_RETURN(auto ring,
//                          RingProducer::Create({.name = "frames"}));
//   TENON_ASSIGN_OR_RETURN(RingOffer offer, ring->Offer());  // To the reader.
//   TENON_RETURN_IF_ERROR(ring->AddReader(std::move(reply)).status());
//   TENON_RETURN_IF_ERROR(ring->Put(record, deadline));
//
//   // The reader:
//   TENON_ASSIGN_OR_RETURN(auto reader, RingReader::Attach(std::move(offer)));
//   TENON_ASSIGN_OR_RETURN(RingReply reply, reader->Reply());
//   TENON_ASSIGN_OR_RETURN(size_t records, reader->Get(buffer, deadline));
//
// Every record goes to every reader. Each reader has a tail of its own, which
// is the acknowledgement: a reader that must act before the sender drops its
// reference, such as by claiming a block, acts between Peek() and Advance().
//
// Each process writes only memory that all others map read-only. So a process
// that dies at any instruction leaves nothing inconsistent, and a hostile one
// can spoil only its own part: see Trust.
//
// Memory order: a reader that has received a record sees everything that the
//   producer wrote before Put(). Once acknowledged() counts a record, the
//   producer sees everything that the readers did before Advance() or Get().

#ifndef TENON_IPC_RING_RING_H_
#define TENON_IPC_RING_RING_H_

#include "tenon/ipc/ring/ring_producer.h"
#include "tenon/ipc/ring/ring_reader.h"

#endif  // TENON_IPC_RING_RING_H_
