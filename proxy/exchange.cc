#include "proxy/exchange.h"

#include <algorithm>
#include <array>

#include "oci-spec/host_pattern.h"
#include "oci-spec/reasons.h"
#include "oci-spec/rules.h"
#include "proxy/refusal.h"

namespace leash::proxy {

namespace {

// A model may think for minutes before its first byte: waits within an exchange are long.
constexpr std::chrono::minutes kExchangeIdle{15};
// How often we look whether the client is still there while its origin is silent.
constexpr std::chrono::seconds kGlance{2};
// For a client that was answered before it had sent its whole request.
constexpr std::chrono::seconds kUploadLinger{10};

Clock::time_point in_exchange() { return Clock::now() + kExchangeIdle; }

bool is_idempotent(std::string_view method) {
  constexpr std::array<std::string_view, 6> kMethods = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"};
  return std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
}

std::string_view why_no_more(const Result<size_t>& got) {
  if (got) return oci::reason::kOriginProtocol;
  switch (got.error().code()) {
    case ETIMEDOUT:
      return oci::reason::kTimeout;
    case EPIPE:
      return oci::reason::kClientClosed;
    default:
      return oci::reason::kOriginProtocol;
  }
}

// An offer of cleartext HTTP/2 may be ignored (RFC 9110 section 7.8); Java and curl make it routinely.
bool is_only_h2c(std::string_view upgrade) { return equals_ignoring_case(upgrade, "h2c"); }

}  // namespace

Exchange::Exchange(Services& services, Stream& client, Buffer& in, const ConnectionFacts& facts, Flow& flow)
    : services_(services),
      client_(client),
      in_(in),
      facts_(facts),
      flow_(flow),
      digest_(services.sha256, services.policy.log.body_preview),
      upload_buffer_(services.blocks),
      upload_ended_(services.context) {}

Exchange::~Exchange() {
  for (Edit& edit : edits_) wipe(edit.text);
}

void Exchange::cross() { FlowLog::count(flow_, client_.bytes_received(), client_.bytes_sent()); }

// SNI = Host = request target, RFC 9110 section 7.4. Plain HTTP has no SNI to agree with.
bool Exchange::agree_on_name(std::string& host) {
  const auto normalised = [this](std::string_view authority, std::string& name) {
    std::string_view text;
    uint16_t port = 0;
    if (!split_authority(authority, text, port)) return false;
    if (port != 0 && port != facts_.port) return false;
    Result<std::string> result = oci::normalise_host(text);
    if (!result) return false;
    name = std::move(result).value();
    return true;
  };
  if (!normalised(head_.host, host)) return false;
  if (!head_.authority.empty()) {
    std::string target;
    if (!normalised(head_.authority, target) || target != host) return false;
    if (equals_ignoring_case(head_.scheme, "https") != facts_.is_tls) return false;
  }
  return !facts_.is_tls || host == facts_.name;
}

void Exchange::edit_connection(const Header& header) {
  // What the client says of its own connection: ours to the origin is another one, and is kept.
  const bool names_others = [&] {
    std::string_view list = header.value;
    while (!list.empty()) {
      const size_t comma = list.find(',');
      std::string_view item = list.substr(0, comma);
      while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
      while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
      if (!equals_ignoring_case(item, "keep-alive") && !equals_ignoring_case(item, "te")) return true;
      if (comma == std::string_view::npos) break;
      list.remove_prefix(comma + 1);
    }
    return false;
  }();
  if (!names_others) return;
  const size_t offset = static_cast<size_t>(header.line.data() - head_.bytes.data());
  edits_.push_back({offset, header.line.size(), head_.minor_version == 0 ? "Connection: close\r\n" : ""});
  // RFC 9110 section 7.6.1: fields that Connection names end here. Never Host or framing: a request
  // that names those is trying to change what the next hop reads.
  for (const Header& other : head_.headers) {
    if (!list_has(header.value, other.name)) continue;
    constexpr std::array<std::string_view, 5> kKept = {"connection", "te", "host", "content-length", "transfer-encoding"};
    if (std::any_of(kKept.begin(), kKept.end(),
                    [&](std::string_view name) { return equals_ignoring_case(other.name, name); })) {
      continue;
    }
    const size_t at = static_cast<size_t>(other.line.data() - head_.bytes.data());
    edits_.push_back({at, other.line.size(), ""});
  }
}

void Exchange::collect_edits() {
  if (head_.has_connection) {
    for (const Header& header : head_.headers) {
      if (equals_ignoring_case(header.name, "connection")) edit_connection(header);
    }
  }
  if (patterns_ != nullptr) {
    // What comes back is searched for the value, and a compressed answer cannot be.
    for (const Header& header : head_.headers) {
      if (!equals_ignoring_case(header.name, "accept-encoding")) continue;
      const size_t at = static_cast<size_t>(header.line.data() - head_.bytes.data());
      edits_.push_back({at, header.line.size(), "Accept-Encoding: identity\r\n"});
    }
  }
  if (!head_.upgrade.empty()) {
    for (const Header& header : head_.headers) {
      if (equals_ignoring_case(header.name, "upgrade") || equals_ignoring_case(header.name, "http2-settings")) {
        const size_t at = static_cast<size_t>(header.line.data() - head_.bytes.data());
        edits_.push_back({at, header.line.size(), ""});
      }
    }
  }
  std::stable_sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.offset < b.offset; });
}

std::string Exchange::edited_request(std::string_view body) const {
  std::string text;
  text.reserve(head_.bytes.size() + body.size() + 256);
  size_t position = 0;
  for (const Edit& edit : edits_) {
    if (edit.offset < position) continue;  // within a line that is gone
    text += head_.bytes.substr(position, edit.offset - position);
    text += edit.text;
    position = edit.offset + edit.length;
  }
  text += head_.bytes.substr(position);
  text += body;
  return text;
}

void Exchange::take_body_from_buffer(size_t head_length) {
  upload_scanner_ = BodyScanner(head_.body_kind(), head_.content_length);
  if (upload_scanner_.done()) return;
  const std::string_view rest = in_.view().substr(head_length);
  std::vector<Piece> pieces;
  if (upload_scanner_.scan(rest, body_here_, pieces) == BodyStatus::kBad) {
    upload_problem_ = {400, upload_scanner_.problem()};
    return;
  }
  for (const Piece& piece : pieces) digest_.update(rest.substr(piece.offset, piece.length));
}

asio::awaitable<bool> Exchange::answer(std::string text, bool keep) {
  has_answered_ = true;
  Result<void> written = co_await client_.write_all(text, in_exchange());
  if (!written && flow_.event.error.empty()) flow_.event.error = oci::reason::kClientClosed;
  cross();
  if (!keep || !written) co_return false;
  in_.consume(head_.bytes.size() + body_here_);
  co_return true;
}

asio::awaitable<bool> Exchange::refuse(int status, std::string_view reason) {
  // A body that has not come would have to be read to its end before the next request.
  const bool keep = wants_keep_alive_ && body_is_here() && status == 403;
  flow_.event.status = status;
  const oci::Refusal refusal = {reason,           flow_.event.host, flow_.event.rule, {},
                                flow_.event.method, flow_.event.path};
  const RefusalForm form = {status, !keep, head_.method == "HEAD"};
  co_return co_await answer(refusal_response(refusal, form), keep);
}

asio::awaitable<bool> Exchange::fail(OriginFailure failure) {
  if (failure.is_refusal) {
    if (failure.verdict.reason.empty()) {
      flow_.refuse(services_.policy, failure.reason, oci::layer::kTcp);
    } else {
      flow_.judge(failure.verdict, oci::layer::kTcp);
    }
    co_return co_await refuse(403, failure.reason);
  }
  const bool keep = wants_keep_alive_ && body_is_here();
  const RefusalForm form = {failure.reason == oci::reason::kTimeout ? 504 : 502, !keep, head_.method == "HEAD"};
  flow_.event.status = form.status;
  flow_.event.error = failure.reason;
  co_return co_await answer(origin_error_response(failure.reason, flow_.event.host, failure.detail, form), keep);
}

asio::awaitable<void> Exchange::refuse_malformed(HeadProblem problem) {
  flow_.refuse(services_.policy, oci::reason::kBadRequest, oci::layer::kHttp);
  flow_.event.status = problem.status;
  if (flow_.event.host.empty()) flow_.event.host = facts_.name;
  const oci::Refusal refusal = {oci::reason::kBadRequest, flow_.event.host, {}, problem.text, flow_.event.method,
                                flow_.event.path};
  const bool ignored = co_await answer(refusal_response(refusal, {problem.status, true, false}), false);
  (void)ignored;
}

asio::awaitable<bool> Exchange::run(size_t head_length) {
  HeadProblem problem;
  if (!parse_request_head(in_.view().substr(0, head_length), head_, problem)) {
    co_await refuse_malformed(problem);
    co_return false;
  }
  oci::FlowEvent& event = flow_.event;
  event.method = head_.method;
  event.path = head_.path;
  event.http_version = head_.minor_version == 1 ? "1.1" : "1.0";
  wants_keep_alive_ = head_.keeps_alive() && head_.minor_version == 1;
  take_body_from_buffer(head_length);
  event.req_size = upload_scanner_.payload_bytes();
  const bool agreed = agree_on_name(host_);
  event.host = facts_.is_tls ? facts_.name : host_;
  if (event.host.empty()) event.host = head_.host;
  FlowLog::publish(flow_);
  cross();
  if (!upload_problem_.text.empty()) {
    co_await refuse_malformed(upload_problem_);
    co_return false;
  }
  if (head_.method == "CONNECT") {
    wants_keep_alive_ = false;
    event.path = head_.target;
    flow_.refuse(services_.policy, oci::reason::kConnectNotAllowed, oci::layer::kHttp);
    co_return co_await refuse(403, oci::reason::kConnectNotAllowed);
  }
  if (!facts_.refusal.empty()) {
    flow_.judge(oci::refuse(services_.policy, facts_.refusal), oci::layer::kTls);
    if (flow_.is_blocked) co_return co_await refuse(403, facts_.refusal);
  }
  if (!agreed) {
    flow_.judge(oci::refuse(services_.policy, oci::reason::kHostMismatch), oci::layer::kHttp);
    // Plain HTTP has no other name to go by, so that there is nothing to observe.
    if (!flow_.is_blocked && !facts_.is_tls) flow_.refuse(services_.policy, oci::reason::kHostMismatch, oci::layer::kHttp);
    if (flow_.is_blocked || !facts_.is_tls) co_return co_await refuse(403, oci::reason::kHostMismatch);
    host_ = facts_.name;
  }
  const bool is_upgrade = !head_.upgrade.empty() && !is_only_h2c(head_.upgrade);
  const oci::RequestFacts request = {head_.method, host_, facts_.port, head_.path, is_upgrade,
                                     head_.method_override, head_.overrides_path};
  const oci::Verdict verdict = oci::judge_request(services_.policy, request);
  flow_.judge(verdict, oci::layer::kHttp);
  if (flow_.is_blocked) co_return co_await refuse(403, verdict.reason);
  if (is_upgrade) {
    // No frames are read yet, so none can be let through, not even in observe mode.
    flow_.refuse(services_.policy, oci::reason::kUpgradeNotAllowed, oci::layer::kHttp);
    co_return co_await refuse(403, oci::reason::kUpgradeNotAllowed);
  }
  if (!services_.secrets.empty()) {
    Substitution substitution = substitute(head_, host_, facts_.is_tls, services_.secrets);
    if (!substitution.refused.empty()) {
      event.secrets = {substitution.secret};
      flow_.judge(oci::refuse(services_.policy, substitution.refused), oci::layer::kHttp);
      if (flow_.is_blocked) co_return co_await refuse(403, substitution.refused);
    } else {
      edits_ = std::move(substitution.edits);
      event.secrets = std::move(substitution.names);
    }
    patterns_ = services_.secrets.patterns_for(host_);
  }
  if (!facts_.failure.reason.empty()) {
    // What was found out at the handshake holds for this connection; a new one asks anew.
    wants_keep_alive_ = false;
    co_return co_await fail(facts_.failure);
  }
  collect_edits();
  Origin origin{host_, facts_.port, facts_.is_tls};
  co_return co_await forward(std::move(origin));
}

asio::awaitable<bool> Exchange::forward(Origin origin) {
  bool fresh = false;
  for (;;) {
    OriginResult taken = co_await services_.pool.take(origin, fresh);
    if (taken.connection == nullptr) co_return co_await fail(std::move(taken.failure));
    flow_.event.dst_ip = taken.connection->address;
    const bool may_retry = taken.connection->was_kept && body_is_here() && is_idempotent(head_.method);
    const Attempt result = co_await attempt(*taken.connection, may_retry);
    if (result == Attempt::kRetry) {
      fresh = true;
      continue;
    }
    if (origin_reusable_) services_.pool.give_back(std::move(taken.connection));
    break;
  }
  flow_.event.req_size = upload_scanner_.payload_bytes();
  flow_.event.req_body_sha256 = digest_.sha256();
  flow_.event.req_body_preview = digest_.take_preview();
  // A container may know the value by other ways (an older image, a file) and send it itself.
  if (patterns_ != nullptr) patterns_->replace(flow_.event.req_body_preview);
  if (!upload_problem_.text.empty()) {
    flow_.refuse(services_.policy, oci::reason::kBadRequest, oci::layer::kHttp);
    if (!has_answered_) co_await refuse_malformed(upload_problem_);
    co_return false;
  }
  co_return client_reusable_;
}

asio::awaitable<Exchange::Attempt> Exchange::attempt(OriginConnection& origin, bool may_retry) {
  const std::string_view body = in_.view().substr(head_.bytes.size(), body_here_);
  Result<void> sent;
  if (edits_.empty()) {
    // Head and body lie together: one write, no copy.
    sent = co_await origin.stream.write_all(in_.view().substr(0, head_.bytes.size() + body_here_), in_exchange());
  } else {
    std::string text = edited_request(body);
    sent = co_await origin.stream.write_all(text, in_exchange());
    wipe(text);
  }
  if (!sent && may_retry) co_return Attempt::kRetry;
  // An origin that has answered early (413) and closed: its answer may be there to read.
  if (!body_is_here() && sent) {
    is_uploading_ = true;
    spawn(services_.context, "upload", upload(origin), [this] { upload_ended_.open(); });
  }
  const Attempt result = co_await relay_response(origin, may_retry);
  if (is_uploading_) co_await end_upload(origin, result == Attempt::kAnswered);
  if (result == Attempt::kAnswered) co_return result;
  origin_reusable_ = false;
  client_reusable_ = false;
  if (result == Attempt::kRetry) co_return result;
  if (has_answered_) {
    must_reset_ = true;
  } else if (upload_problem_.text.empty() && flow_.event.error != oci::reason::kClientClosed) {
    wants_keep_alive_ = false;
    OriginFailure failure;
    failure.reason = flow_.event.error == oci::reason::kTimeout ? oci::reason::kTimeout : oci::reason::kOriginProtocol;
    failure.detail = encoded_answer_ ? "the answer is compressed though it was asked for plain: a secret in it would not be seen"
                                     : "no valid answer from the origin";
    const bool ignored = co_await fail(std::move(failure));
    (void)ignored;
  }
  co_return Attempt::kFailed;
}

// The rest of the request's body, while the answer may already be coming.
asio::awaitable<void> Exchange::upload(OriginConnection& origin) {
  std::vector<Piece> pieces;
  while (!upload_scanner_.done() && !upload_stopped_) {
    const std::span<char> room = upload_buffer_.room();
    const Result<size_t> got = co_await client_.read_some(room, in_exchange());
    cross();
    if (!got || *got == 0) {
      // A request that never gets whole must not look whole to the origin.
      if (!upload_stopped_) flow_.event.error = oci::reason::kClientClosed;
      origin.stream.close(true);
      co_return;
    }
    upload_buffer_.filled(*got);
    size_t consumed = 0;
    pieces.clear();
    const std::string_view raw = upload_buffer_.view();
    if (upload_scanner_.scan(raw, consumed, pieces) == BodyStatus::kBad) {
      upload_problem_ = {400, upload_scanner_.problem()};
      origin.stream.close(true);
      co_return;
    }
    for (const Piece& piece : pieces) digest_.update(raw.substr(piece.offset, piece.length));
    const Result<void> sent = co_await origin.stream.write_all(raw.substr(0, consumed), in_exchange());
    // Not an error yet: the origin may have answered without reading on.
    if (!sent) co_return;
    upload_buffer_.consume(consumed);
  }
}

asio::awaitable<void> Exchange::end_upload(OriginConnection& origin, bool is_answered) {
  if (is_answered) {
    const bool ignored = co_await upload_ended_.wait(Clock::now() + kUploadLinger);
    (void)ignored;
    // It has its answer; that it did not send the rest is its right.
    flow_.event.error.clear();
  }
  if (!upload_ended_.is_open()) {
    upload_stopped_ = true;
    client_.cancel_reads();
    origin.stream.close(true);
    const bool ignored = co_await upload_ended_.wait(Clock::time_point::max());
    (void)ignored;
  }
  if (upload_scanner_.done()) {
    // What came behind the body is the next request. in_ held nothing but this one.
    const std::string_view next = upload_buffer_.view();
    in_.consume(in_.size());
    while (in_.size() < next.size()) {
      const std::span<char> room = in_.room();
      const size_t part = std::min(room.size(), next.size() - in_.size());
      std::copy_n(next.begin() + static_cast<ptrdiff_t>(in_.size()), part, room.begin());
      in_.filled(part);
    }
  } else {
    client_reusable_ = false;
    origin_reusable_ = false;
  }
}

// EPIPE: the client has gone meanwhile. A person who has cancelled a prompt does not want it answered.
Task<size_t> Exchange::read_origin(OriginConnection& origin, std::span<char> room) {
  Clock::time_point deadline = in_exchange();
  for (;;) {
    const Clock::time_point now = Clock::now();
    Result<size_t> got = co_await origin.stream.read_some(room, std::min(deadline, now + kGlance));
    if (got || got.error().code() != ETIMEDOUT) co_return got;
    if (client_.is_gone()) co_return Error(EPIPE, "client is gone");
    // A long upload is no silence.
    if (is_uploading_ && !upload_ended_.is_open()) deadline = in_exchange();
    if (now >= deadline) co_return got;
  }
}

asio::awaitable<Exchange::Attempt> Exchange::relay_response(OriginConnection& origin, bool may_retry) {
  Buffer up(services_.blocks);
  ResponseHead response;
  HeadProblem problem;
  for (;;) {
    HeadScanner scanner;
    size_t length = 0;
    HeadStatus status = scanner.scan(up.view(), length, problem);
    while (status == HeadStatus::kIncomplete) {
      const std::span<char> room = up.room();
      const Result<size_t> got = co_await read_origin(origin, room);
      if (!got || *got == 0) {
        if (may_retry && up.empty() && !has_answered_) co_return Attempt::kRetry;
        if (flow_.event.error.empty()) flow_.event.error = why_no_more(got);
        co_return Attempt::kFailed;
      }
      up.filled(*got);
      status = scanner.scan(up.view(), length, problem);
    }
    may_retry = false;
    const bool parsed = status == HeadStatus::kComplete && parse_response_head(up.view().substr(0, length), response, problem);
    // 101 would be an answer to an Upgrade that was never forwarded.
    if (!parsed || response.status == 101) {
      flow_.event.error = oci::reason::kOriginProtocol;
      co_return Attempt::kFailed;
    }
    if (response.status >= 200) break;
    std::string interim(response.bytes);
    if (patterns_ != nullptr) patterns_->replace(interim);
    Result<void> written = co_await client_.write_all(interim, in_exchange());
    if (!written) {
      flow_.event.error = oci::reason::kClientClosed;
      co_return Attempt::kFailed;
    }
    up.consume(length);
  }
  flow_.event.status = response.status;
  const BodyKind kind = response.body_kind(head_.method == "HEAD");
  if (patterns_ != nullptr && kind != BodyKind::kNone && response.is_encoded) {
    // It was asked not to: a value could come back unseen.
    encoded_answer_ = true;
    flow_.event.error = oci::reason::kOriginProtocol;
    co_return Attempt::kFailed;
  }
  client_reusable_ = wants_keep_alive_ && kind != BodyKind::kUntilClose && response.minor_version == 1;
  origin_reusable_ = response.keeps_alive() && kind != BodyKind::kUntilClose && head_.minor_version == 1;

  BodyScanner body(kind, response.content_length);
  StreamRedactor redactor(patterns_);
  std::vector<Piece> pieces;
  size_t consumed = 0;
  const std::string_view rest = up.view().substr(response.bytes.size());
  const BodyStatus status = body.scan(rest, consumed, pieces);
  const bool drops_close = response.says_close && client_reusable_;
  // The client asked for the end of its connection, and is told of it (RFC 9112 section 9.6).
  const bool adds_close = !client_reusable_ && !response.says_close && kind != BodyKind::kUntilClose;
  Result<void> written;
  has_answered_ = true;
  if (redactor.idle() && !drops_close && !adds_close) {
    written = co_await client_.write_all(up.view().substr(0, response.bytes.size() + consumed), in_exchange());
  } else {
    std::string text;
    text.reserve(response.bytes.size() + consumed);
    if (adds_close) {
      text = response.bytes.substr(0, response.bytes.size() - 2);
      text += "Connection: close\r\n\r\n";
    } else if (drops_close) {
      size_t position = 0;
      for (const Header& header : response.headers) {
        if (!equals_ignoring_case(header.name, "connection")) continue;
        const size_t at = static_cast<size_t>(header.line.data() - response.bytes.data());
        text += response.bytes.substr(position, at - position);
        position = at + header.line.size();
      }
      text += response.bytes.substr(position);
    } else {
      text = response.bytes;
    }
    if (!redactor.idle()) patterns_->replace(text);
    redactor.pass(rest.substr(0, consumed), pieces, body.done(), text);
    written = co_await client_.write_all(text, in_exchange());
  }
  up.consume(response.bytes.size() + consumed);
  cross();
  if (!written) {
    flow_.event.error = oci::reason::kClientClosed;
    co_return Attempt::kFailed;
  }
  bool whole = status == BodyStatus::kDone;
  if (status == BodyStatus::kBad) {
    flow_.event.error = oci::reason::kOriginProtocol;
  } else if (!whole) {
    whole = co_await relay_body(origin, up, std::move(body), std::move(redactor));
  } else {
    flow_.event.resp_size = body.payload_bytes();
  }
  if (!up.empty()) origin_reusable_ = false;  // stray bytes: nobody's answer
  if (!is_uploading_ && whole && client_reusable_) in_.consume(head_.bytes.size() + body_here_);
  co_return whole ? Attempt::kAnswered : Attempt::kFailed;
}

asio::awaitable<bool> Exchange::relay_body(OriginConnection& origin, Buffer& up, BodyScanner scanner,
                                           StreamRedactor redactor) {
  std::vector<Piece> pieces;
  std::string text;
  bool whole = false;
  while (!scanner.done()) {
    const std::span<char> room = up.room();
    const Result<size_t> got = co_await read_origin(origin, room);
    size_t consumed = 0;
    pieces.clear();
    const bool ended = !got || *got == 0;
    if (ended) {
      // A TLS origin that lasts until close must say goodbye: without it the end may be cut off.
      whole = got.has_value() && scanner.complete_at_close();
      if (!whole) flow_.event.error = why_no_more(got);
    } else {
      up.filled(*got);
      if (scanner.scan(up.view(), consumed, pieces) == BodyStatus::kBad) {
        flow_.event.error = oci::reason::kOriginProtocol;
        break;
      }
    }
    Result<void> written;
    if (redactor.idle()) {
      written = co_await client_.write_all(up.view().substr(0, consumed), in_exchange());
    } else {
      text.clear();
      redactor.pass(up.view().substr(0, consumed), pieces, ended || scanner.done(), text);
      written = co_await client_.write_all(text, in_exchange());
    }
    up.consume(consumed);
    cross();
    if (!written) {
      flow_.event.error = oci::reason::kClientClosed;
      whole = false;
      break;
    }
    if (ended) break;
    whole = scanner.done();
  }
  flow_.event.resp_size = scanner.payload_bytes();
  co_return whole;
}

}  // namespace leash::proxy
