#include "proxy/process_names.h"

namespace leash::proxy {

namespace {

// Answers may get lost (a full channel): after a pause the first question is asked again regardless.
constexpr std::chrono::seconds kPause{1};

}  // namespace

void ProcessNames::Question::ask(oci::WhoRequest request) {
  const Clock::time_point now = Clock::now();
  const uint32_t unanswered = names_.last_tag_ - names_.last_answered_;
  if (!names_.ask_ || (unanswered >= kMaxUnanswered && now - names_.last_asked_ < kPause)) return;
  if (++names_.last_tag_ == 0) ++names_.last_tag_;
  request.tag = names_.last_tag_;
  names_.last_asked_ = now;
  if (!names_.ask_(request)) return;
  tag_ = request.tag;
  names_.open_.emplace(tag_, this);
}

asio::awaitable<void> ProcessNames::Question::wait(Clock::duration longest) {
  if (!is_open()) co_return;
  Gate gate(names_.context_);
  waiting_ = &gate;
  const bool ignored = co_await gate.wait(Clock::now() + longest);
  (void)ignored;
  waiting_ = nullptr;
  // Who has waited in vain once does not wait again.
  forget();
}

void ProcessNames::Question::forget() {
  if (tag_ != 0) names_.open_.erase(tag_);
  tag_ = 0;
}

void ProcessNames::answer(const oci::WhoReply& reply) {
  last_answered_ = reply.tag;
  const auto found = open_.find(reply.tag);
  if (found == open_.end()) return;
  Question& question = *found->second;
  question.text_ = oci::process_text(reply);
  question.forget();
  if (question.waiting_ != nullptr) question.waiting_->open();
}

}  // namespace leash::proxy
