// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The server of two programs that share only a name: it prints a command that
// runs the client, waits for it, and sends it a tensor. An argument bounds the
// wait, in seconds.

#include <cstdlib>
#include <iostream>

#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/exit_code.h"
#include "tenon/shm/base/status_macros.h"

using namespace tenon;  // NOLINT: a program of one file.

Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

absl::Status Run(Deadline for_client) {
  TENON_ASSIGN_OR_RETURN(auto arena, Arena::Create({.name = "server"}));
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         CreateTensor(*arena, kDtypeOf<float>, {2, 3}, Soon()));
  TENON_RETURN_IF_ERROR(tensor.Fill(7.0f));
  TENON_ASSIGN_OR_RETURN(auto listener, Listener::CreateAbstract());
  std::cout << "Run this in another terminal:\n"
            << "./bazelw run //examples:unrelated_client -- " << listener.name()
            << "\nwaiting for it; Ctrl-C ends this" << std::endl;

  TENON_ASSIGN_OR_RETURN(Channel channel, listener.Accept(for_client));
  std::cout << "connected: " << channel.peer()->ToString() << "\n";
  TENON_ASSIGN_OR_RETURN(ArenaOffer offer, Offer(tensor));
  TENON_RETURN_IF_ERROR(channel.Send(offer.bytes, offer.fds, Soon()));
  TENON_ASSIGN_OR_RETURN(ArenaTensorHandle handle, Describe(tensor));
  const absl::string_view bytes(reinterpret_cast<char*>(&handle),
                                sizeof(handle));
  TENON_RETURN_IF_ERROR(channel.Send(bytes, {}, Soon()));
  TENON_ASSIGN_OR_RETURN(Message claimed, channel.Receive(Soon()));

  const ArenaUse before = arena->Use();
  tensor = Tensor();  // The client still holds it.
  const ArenaUse after = arena->Use();
  std::cout << claimed.bytes << "; blocks in use here: " << before.blocks_in_use
            << ", then " << after.blocks_in_use << "\n";
  return channel.Close(Soon());  // The client gets the end, not a death.
}

int main(int argc, char** argv) {
  return ExitCode(Run(argc == 2
                          ? Deadline::After(absl::Seconds(std::atoi(argv[1])))
                          : Deadline::Never()));
}
