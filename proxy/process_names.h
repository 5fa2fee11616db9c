// ProcessNames: which process of the container is behind a connection. The proxy may not look into other
// processes, so it asks the shim (message `who`) when it accepts and goes on; a line is written with what
// has come by then. It never has many questions open: a shim that is busy is not sent more, and a control
// channel that nobody reads never gets full of them.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "oci-spec/proxy_protocol.h"
#include "proxy/asio.h"
#include "proxy/gate.h"

namespace leash::proxy {

class ProcessNames {
 public:
  // False: the question could not be sent.
  using Ask = std::function<bool(const oci::WhoRequest&)>;

  // One connection's question, for as long as the connection lives.
  class Question {
   public:
    explicit Question(ProcessNames& names) : names_(names) {}
    ~Question() { forget(); }
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

    // Once. `request.tag` is filled in here.
    void ask(oci::WhoRequest request);
    [[nodiscard]] bool is_open() const { return tag_ != 0; }
    // As in a log line; empty until the answer is there, or if nobody knows.
    [[nodiscard]] const std::string& text() const { return text_; }
    // Until the answer is there, if one is to come.
    [[nodiscard]] asio::awaitable<void> wait(Clock::duration longest);

   private:
    friend class ProcessNames;
    void forget();

    ProcessNames& names_;
    uint32_t tag_ = 0;  // 0: no answer is expected
    std::string text_;
    Gate* waiting_ = nullptr;
  };

  explicit ProcessNames(asio::io_context& context) : context_(context) {}
  void on_ask(Ask ask) { ask_ = std::move(ask); }
  void answer(const oci::WhoReply& reply);

  static constexpr uint32_t kMaxUnanswered = 64;

 private:
  asio::io_context& context_;
  Ask ask_;
  uint32_t last_tag_ = 0;       // never 0 once used
  uint32_t last_answered_ = 0;  // answers come in order: what is older and has none will get none
  Clock::time_point last_asked_;
  std::unordered_map<uint32_t, Question*> open_;
};

}  // namespace leash::proxy
