// The two TLS configurations of the process: as server towards the container (our leaves), as client
// towards origins (their certificates). One SSL_CTX each for the life of the process: making one costs
// as much as a handshake.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "proxy/leaf_mint.h"
#include "proxy/root_store.h"

namespace leash::proxy {

struct ContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using ContextPointer = std::unique_ptr<SSL_CTX, ContextDeleter>;

class ServerTls {
 public:
  // `mint` outlives this.
  [[nodiscard]] static Result<std::unique_ptr<ServerTls>> create(LeafMint& mint);

  [[nodiscard]] SSL_CTX* context() const { return context_.get(); }
  // Which name the certificate of this connection shall be for. `name` outlives the handshake.
  void set_name(SSL* ssl, const std::string& name) const;

 private:
  explicit ServerTls(LeafMint& mint) : mint_(mint) {}
  static int choose_certificate(SSL* ssl, void* self);
  static int choose_protocol(SSL* ssl, const unsigned char** out, unsigned char* out_length, const unsigned char* in,
                             unsigned in_length, void* self);

  LeafMint& mint_;
  ContextPointer context_;
};

class ClientTls {
 public:
  // Trusts the certificates of `trust_store_pem` alone; an empty store is an error.
  [[nodiscard]] static Result<std::unique_ptr<ClientTls>> create(std::string trust_store_pem);
  ~ClientTls();
  ClientTls(const ClientTls&) = delete;
  ClientTls& operator=(const ClientTls&) = delete;

  [[nodiscard]] SSL_CTX* context() const { return context_.get(); }
  // Readies `ssl` for `name`: what to expect, and the session to resume if there is one. `key` names
  // the origin in the session cache and outlives the connection.
  [[nodiscard]] Result<void> prepare(SSL* ssl, const std::string& name, const std::string& key);
  // A session that did not lead to a connection is not tried again.
  void forget(const std::string& key);

 private:
  static constexpr size_t kMaxSessions = 1024;
  ClientTls() = default;
  static int keep_session(SSL* ssl, SSL_SESSION* session);

  std::unique_ptr<RootStore> roots_;  // outlives the context
  ContextPointer context_;
  std::unordered_map<std::string, SSL_SESSION*> sessions_;
};

}  // namespace leash::proxy
