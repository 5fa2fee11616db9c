// Control: the shim's end of the conversation (oci-spec/proxy_protocol.h). When the shim is gone, so
// are we: nobody would restart us, hand us secrets or end us.
#pragma once

#include <memory>

#include "base/channel.h"
#include "proxy/proxy.h"

namespace leash::proxy {

class Control {
 public:
  Control(asio::io_context& context, Channel channel) : context_(context), channel_(std::move(channel)) {}

  // Until the shim closes its end.
  [[nodiscard]] asio::awaitable<void> run();

 private:
  // The kind and body of the answer; an empty kind is none.
  struct Reply {
    std::string kind;
    std::string body;
  };
  [[nodiscard]] Result<Reply> handle(Message message);
  [[nodiscard]] Result<void> configure(Message message);

  asio::io_context& context_;
  Channel channel_;
  std::unique_ptr<Proxy> proxy_;
};

}  // namespace leash::proxy
