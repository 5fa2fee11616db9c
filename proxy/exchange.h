// Exchange: one HTTP/1.1 request and its answer. The order is the point: parse strictly, agree on the
// name, judge, look at credentials, reach the verified origin, and only then forward. What is forwarded
// are the very bytes that were judged, but for hop-by-hop headers, placeholders and, towards the hosts
// of a secret, Accept-Encoding; what comes back is passed on as it comes, read by read.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oci-spec/ip_class.h"
#include "proxy/body_digest.h"
#include "proxy/buffer.h"
#include "proxy/flow.h"
#include "proxy/gate.h"
#include "proxy/http1_body.h"
#include "proxy/http1_head.h"
#include "proxy/origin_pool.h"
#include "proxy/redaction.h"
#include "proxy/services.h"
#include "proxy/substitution.h"

namespace leash::proxy {

// What is known of a client's connection before its first request.
struct ConnectionFacts {
  bool is_tls = false;
  std::string name;  // TLS: SNI, normalised, or the address if there was none; plain: empty
  std::string sni;   // as sent
  uint16_t port = 0;  // that the client meant
  std::string refusal;   // a word of reasons.h: every request is refused with it (no SNI)
  OriginFailure failure;  // the origin could not be reached or verified: every request gets a 502
};

class Exchange {
 public:
  // `in` holds the request's head and whatever followed it.
  Exchange(Services& services, Stream& client, Buffer& in, const ConnectionFacts& facts, Flow& flow);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Serves the request whose head is the first `head_length` bytes of `in`. True if the connection
  // may serve another one.
  [[nodiscard]] asio::awaitable<bool> run(size_t head_length);
  // For a head that never became one.
  [[nodiscard]] asio::awaitable<void> refuse_malformed(HeadProblem problem);

  // The client must see that the answer is cut short: close with a reset.
  [[nodiscard]] bool must_reset() const { return must_reset_; }

 private:
  enum class Attempt { kAnswered, kRetry, kFailed };

  [[nodiscard]] asio::awaitable<bool> forward(Origin origin);
  [[nodiscard]] asio::awaitable<Attempt> attempt(OriginConnection& origin, bool may_retry);
  [[nodiscard]] asio::awaitable<Attempt> relay_response(OriginConnection& origin, bool may_retry);
  [[nodiscard]] asio::awaitable<bool> relay_body(OriginConnection& origin, Buffer& up, BodyScanner scanner,
                                                 StreamRedactor redactor);
  [[nodiscard]] Task<size_t> read_origin(OriginConnection& origin, std::span<char> room);
  [[nodiscard]] asio::awaitable<void> upload(OriginConnection& origin);
  [[nodiscard]] asio::awaitable<void> end_upload(OriginConnection& origin, bool is_answered);

  [[nodiscard]] asio::awaitable<bool> refuse(int status, std::string_view reason);
  [[nodiscard]] asio::awaitable<bool> fail(OriginFailure failure);
  [[nodiscard]] asio::awaitable<bool> answer(std::string text, bool keep);
  [[nodiscard]] bool body_is_here() const { return upload_scanner_.done(); }

  [[nodiscard]] bool agree_on_name(std::string& host);
  void take_body_from_buffer(size_t head_length);
  [[nodiscard]] std::string edited_request(std::string_view body) const;
  void collect_edits();
  void edit_connection(const Header& header);
  void cross();  // publishes the byte counts

  Services& services_;
  Stream& client_;
  Buffer& in_;
  const ConnectionFacts& facts_;
  Flow& flow_;

  RequestHead head_;
  std::string host_;          // the origin's, normalised
  std::vector<Edit> edits_;
  std::shared_ptr<const PatternSet> patterns_;
  bool wants_keep_alive_ = false;
  bool must_reset_ = false;

  size_t body_here_ = 0;  // raw bytes of the body behind the head in in_
  BodyScanner upload_scanner_;
  BodyDigest digest_;
  Buffer upload_buffer_;
  Gate upload_ended_;
  bool is_uploading_ = false;
  bool upload_stopped_ = false;
  HeadProblem upload_problem_;  // the body is malformed

  bool encoded_answer_ = false;   // from an origin of a secret
  bool has_answered_ = false;     // the client has bytes of a final answer
  bool origin_reusable_ = false;
  bool client_reusable_ = false;
};

}  // namespace leash::proxy
