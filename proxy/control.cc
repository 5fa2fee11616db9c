#include "proxy/control.h"

#include "base/log.h"

namespace leash::proxy {

asio::awaitable<void> Control::run() {
  asio::posix::stream_descriptor socket(context_);
  boost::system::error_code error;
  socket.assign(channel_.fd(), error);
  while (!error) {
    co_await socket.async_wait(asio::posix::descriptor_base::wait_read, asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    Result<std::optional<Message>> message = channel_.receive(std::chrono::milliseconds(0));
    if (!message && message.error().code() == ETIMEDOUT) continue;
    if (!message) {
      log::error("control: " + message.error().message());
      break;
    }
    if (!message->has_value()) break;
    Result<Reply> reply = handle(std::move(message).value().value());
    if (!reply) reply = Reply{"failed", reply.error().message()};
    if (reply->kind.empty()) continue;
    const Result<void> sent = channel_.send(reply->kind, reply->body);
    if (!sent) break;
  }
  (void)socket.release();
}

Result<void> Control::configure(Message message) {
  if (proxy_ != nullptr) return Error(EPROTO, "configured already");
  if (message.fds.size() != 5) return Error(EPROTO, "configure: five descriptors are wanted");
  Result<oci::ProxyConfig> config = oci::parse_proxy_config(message.body);
  wipe(message.body);
  if (!config) return std::move(config).error();
  ProxyFiles files;
  files.flows = std::move(message.fds[0]);
  files.blocked = std::move(message.fds[1]);
  files.dialer = std::move(message.fds[2]);
  files.in_flight = std::move(message.fds[3]);
  files.trust_store = std::move(message.fds[4]);
  auto ask_for_rotation = [this](Log log) {
    const oci::RotateRequest request{log == Log::kFlows ? "flows" : "blocked"};
    const Result<void> sent = channel_.send("rotate", oci::print(request));
    if (!sent) log::error("rotate: " + sent.error().message());
  };
  auto ask_who = [this](const oci::WhoRequest& request) { return channel_.send("who", oci::print(request)).has_value(); };
  TRY(proxy_, Proxy::create(context_, std::move(config).value(), std::move(files), std::move(ask_for_rotation),
                            std::move(ask_who)));
  return {};
}

Result<Control::Reply> Control::handle(Message message) {
  const std::string kind = message.kind;
  if (kind == "configure") {
    TRY_VOID(configure(std::move(message)));
    return Reply{"configured", ""};
  }
  if (proxy_ == nullptr) return Error(EPROTO, kind + ": not configured");
  if (kind == "network") {
    TRY(const oci::NetworkFacts facts, oci::parse_network_facts(message.body));
    TRY_VOID(proxy_->set_network(facts));
    return Reply{};
  }
  if (kind == "listen") {
    TRY(const oci::ListenerList list, oci::parse_listener_list(message.body));
    TRY_VOID(proxy_->listen(list, std::move(message.fds)));
    return Reply{"listening", ""};
  }
  if (kind == "secret") {
    Result<oci::ProxySecret> secret = oci::parse_proxy_secret(message.body);
    wipe(message.body);
    if (!secret) return std::move(secret).error();
    TRY_VOID(proxy_->add_secret(std::move(secret).value()));
    return Reply{"stored", ""};
  }
  if (kind == "refused") {
    TRY(const oci::RefusedPacket packet, oci::parse_refused_packet(message.body));
    proxy_->report(packet);
    return Reply{};
  }
  if (kind == "who") {
    TRY(const oci::WhoReply reply, oci::parse_who_reply(message.body));
    proxy_->name_process(reply);
    return Reply{};
  }
  if (kind == "rotated") {
    TRY(const oci::RotateRequest request, oci::parse_rotate_request(message.body));
    if (message.fds.size() != 1) return Error(EPROTO, "rotated: one descriptor is wanted");
    proxy_->rotated(request.log == "flows" ? Log::kFlows : Log::kBlocked, std::move(message.fds[0]));
    return Reply{};
  }
  return Error(EPROTO, "unknown message '" + kind + "'");
}

}  // namespace leash::proxy
