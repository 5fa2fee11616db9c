#include "proxy/tls_context.h"

#include <array>

#include "proxy/origin_verify.h"
#include "proxy/tls_stream.h"

namespace leash::proxy {

namespace {

// HTTP/1.1 alone, in ALPN's wire form.
constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

Result<ContextPointer> new_context(const SSL_METHOD* method) {
  ContextPointer context(SSL_CTX_new(method));
  if (context == nullptr) return Error("tls context: " + openssl_error());
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // One recv(2) fetches a whole record, or several.
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  if (SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) return Error("tls version: " + openssl_error());
  return context;
}

}  // namespace

Result<std::unique_ptr<ServerTls>> ServerTls::create(LeafMint& mint) {
  std::unique_ptr<ServerTls> server(new ServerTls(mint));
  TRY(server->context_, new_context(TLS_server_method()));
  SSL_CTX* const context = server->context_.get();
  SSL_CTX_set_cert_cb(context, choose_certificate, server.get());
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, server.get());
  // Sessions live in tickets that the client keeps: no memory here. Their key dies with the process.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 1);
  constexpr std::array<unsigned char, 5> kSessionContext = {'l', 'e', 'a', 's', 'h'};
  if (SSL_CTX_set_session_id_context(context, kSessionContext.data(), kSessionContext.size()) != 1) {
    return Error("session context: " + openssl_error());
  }
  return server;
}

void ServerTls::set_name(SSL* ssl, const std::string& name) const {
  // app_data is not const-correct; it is read back as const below.
  SSL_set_app_data(ssl, const_cast<std::string*>(&name));
}

int ServerTls::choose_certificate(SSL* ssl, void* self) {
  const auto* const name = static_cast<const std::string*>(SSL_get_app_data(ssl));
  LeafMint& mint = static_cast<ServerTls*>(self)->mint_;
  const Result<X509*> leaf = mint.leaf(*name);
  if (!leaf) return 0;
  return SSL_use_cert_and_key(ssl, *leaf, mint.key(), nullptr, 1);
}

int ServerTls::choose_protocol(SSL*, const unsigned char** out, unsigned char* out_length, const unsigned char* in,
                               unsigned in_length, void*) {
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen, out_length, kHttp11.data(), kHttp11.size(), in, in_length);
  *out = chosen;
  // A client that speaks h2 alone (gRPC) is told so, RFC 7301 section 3.2.
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Result<std::unique_ptr<ClientTls>> ClientTls::create(std::string trust_store_pem) {
  std::unique_ptr<ClientTls> client(new ClientTls());
  TRY(client->context_, new_context(TLS_client_method()));
  SSL_CTX* const context = client->context_.get();
  TRY_VOID(require_verification(context));
  if (SSL_CTX_set_alpn_protos(context, kHttp11.data(), kHttp11.size()) != 0) return Error("alpn: " + openssl_error());
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, keep_session);
  SSL_CTX_set_app_data(context, client.get());

  TRY(client->roots_, RootStore::create(std::move(trust_store_pem)));
  TRY_VOID(client->roots_->serve(SSL_CTX_get_cert_store(context)));
  return client;
}

ClientTls::~ClientTls() {
  for (const auto& [key, session] : sessions_) SSL_SESSION_free(session);
}

Result<void> ClientTls::prepare(SSL* ssl, const std::string& name, const std::string& key) {
  SSL_set_app_data(ssl, const_cast<std::string*>(&key));
  TRY_VOID(expect_origin(ssl, name));
  const auto found = sessions_.find(key);
  if (found != sessions_.end() && SSL_SESSION_is_resumable(found->second) == 1) {
    (void)SSL_set_session(ssl, found->second);
  }
  return {};
}

void ClientTls::forget(const std::string& key) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return;
  SSL_SESSION_free(found->second);
  sessions_.erase(found);
}

int ClientTls::keep_session(SSL* ssl, SSL_SESSION* session) {
  auto* const client = static_cast<ClientTls*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const auto* const key = static_cast<const std::string*>(SSL_get_app_data(ssl));
  if (key == nullptr) return 0;
  client->forget(*key);
  if (client->sessions_.size() >= kMaxSessions) client->forget(client->sessions_.begin()->first);
  client->sessions_.emplace(*key, session);
  return 1;  // the reference is ours now
}

}  // namespace leash::proxy
