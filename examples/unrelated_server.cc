// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The server of two programs that share only a name: it prints its name, and
// sends a tensor to the first client that connects: unrelated_client.

#include "tenon/examples/example.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"

using namespace tenon;  // NOLINT: an example.

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(auto arena, Arena::Create({.name = "server"}));
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         CreateTensor(*arena, kDtypeOf<float>, {2, 3}, Soon()));
  TENON_RETURN_IF_ERROR(tensor.Fill(7.0f));
  TENON_ASSIGN_OR_RETURN(auto listener, Listener::CreateAbstract());
  std::printf("unrelated_client %s\n", listener.name().c_str());
  std::fflush(stdout);

  TENON_ASSIGN_OR_RETURN(Channel channel, listener.Accept(Soon()));
  std::printf("connected: %s\n", channel.peer()->ToString().c_str());
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
  std::printf("%s; blocks in use here: %zu, then %zu\n", claimed.bytes.c_str(),
              before.blocks_in_use, after.blocks_in_use);
  return channel.Send("goodbye", {}, Soon());
}

int main() { return Finish(Run()); }
