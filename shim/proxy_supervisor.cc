#include "shim/proxy_supervisor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/sys.h"
#include "shim/journal.h"
#include "shim/unprivileged.h"

namespace leash::shim {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAnswerTime{8000};       // to start, to be configured, to listen
constexpr milliseconds kFlushTime{500};         // to write the last lines at the end
constexpr milliseconds kLongestBackoff{5000};
constexpr auto kHealthyTime = std::chrono::seconds(10);  // who lived so long may be restarted at once
constexpr size_t kMaxReports = 1024;

std::string describe(int wait_status) {
  if (WIFSIGNALED(wait_status)) return "was killed by signal " + std::to_string(WTERMSIG(wait_status));
  return "has ended with status " + std::to_string(WEXITSTATUS(wait_status));
}

// In the child, between fork and exec. Comes back only with an error.
Error become_proxy(int program, int control, const std::string& container_id, pid_t parent) {
  // Above the numbers that are assigned below, so that nothing is overwritten before it is used.
  const int control_copy = ::fcntl(control, F_DUPFD_CLOEXEC, 10);
  const int program_copy = ::fcntl(program, F_DUPFD_CLOEXEC, 10);
  if (control_copy < 0 || program_copy < 0) return Error::last_errno("dup");
  if (::dup2(control_copy, 3) < 0 || ::dup3(program_copy, 4, O_CLOEXEC) < 0) return Error::last_errno("dup2");
  auto closed = close_all_but({3, 4});
  if (!closed) return std::move(closed).error();
  struct rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  (void)::umask(077);
  auto dropped = give_up_privileges(child_uid(ChildKind::kProxy, ::getpid()), parent);
  if (!dropped) return std::move(dropped).error();
  // By descriptor: the path need not be one that this uid may walk.
  char name[] = "leash-proxy";
  std::string id = container_id;
  char* const arguments[] = {name, id.data(), nullptr};
  char* const environment[] = {nullptr};
  (void)::syscall(SYS_execveat, 4, "", arguments, environment, AT_EMPTY_PATH);
  return Error::last_errno("execute leash-proxy");
}

}  // namespace

ProxySupervisor::ProxySupervisor(Loop& loop, Children& children, LogFiles& logs, Fd program, std::string container_id)
    : loop_(loop), children_(children), logs_(logs), program_(std::move(program)), container_id_(std::move(container_id)) {}

ProxySupervisor::~ProxySupervisor() { stop(); }

const char* ProxySupervisor::state_word() const {
  switch (state_) {
    case State::kRunning:
    case State::kConfigured: return "running";
    case State::kStarted:
    case State::kConfiguring:
    case State::kOpening: return restarts_ == 0 ? "starting" : "restarting";
    case State::kAbsent: return "restarting";
    case State::kStopped: return "absent";
  }
  return "absent";
}

Result<void> ProxySupervisor::start() {
  TRY(auto ends, Channel::pair());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error::last_errno("fork leash-proxy");
  if (pid == 0) {
    const Error error = become_proxy(program_.get(), ends.second.fd(), container_id_, parent);
    note(error.message());
    ::_exit(127);
  }
  pid_ = pid;
  started_at_ = Loop::Clock::now();
  children_.expect(pid, [this](int wait_status) { on_exit(wait_status); });
  // Ours alone: a proxy that does not read must not make us wait in send.
  TRY_VOID(sys::set_nonblocking(ends.first.fd(), true));
  control_ = std::move(ends.first);
  state_ = State::kStarted;
  set_deadline();
  return loop_.watch(control_.fd(), EPOLLIN, [this](uint32_t) { on_message(); });
}

void ProxySupervisor::configure(Fd n1, Fd trust_store, std::vector<std::string> resolvers,
                                std::function<oci::ProxyConfig()> make_config, OnResult done) {
  n1_ = std::move(n1);
  trust_store_ = std::move(trust_store);
  resolvers_ = std::move(resolvers);
  make_config_ = std::move(make_config);
  on_configured_ = std::move(done);
  if (state_ == State::kAbsent) {
    fail(on_configured_, Error(last_words_));
    return;
  }
  advance();
}

void ProxySupervisor::listen(std::vector<hooks::Listener> sockets, OnResult done) {
  listeners_ = std::make_unique<Listeners>(loop_, std::move(sockets));
  on_listening_ = std::move(done);
  if (state_ == State::kConfigured) {
    advance();
  } else {
    listeners_->refuse();  // it died since; the next one will be told
  }
}

void ProxySupervisor::set_network(oci::NetworkFacts facts) {
  network_ = std::move(facts);
  if (state_ != State::kOpening && state_ != State::kRunning) return;  // it comes with the listeners
  auto sent = control_.send("network", oci::print(network_));
  if (!sent) give_up_on(sent.error());
}

void ProxySupervisor::advance() {
  Result<void> sent;
  if (state_ == State::kStarted && make_config_) {
    sent = send_configuration();
  } else if (state_ == State::kConfigured && listeners_) {
    sent = send_listeners();
  } else {
    return;
  }
  if (!sent) give_up_on(sent.error());
}

Result<void> ProxySupervisor::send_configuration() {
  TRY(const LogFiles::LastSeq last, logs_.settle());
  TRY(dialer_, start_dialer(n1_.get(), resolvers_));
  children_.expect(dialer_.pid, [this, pid = dialer_.pid](int wait_status) {
    if (pid != dialer_.pid) return;
    dialer_.pid = 0;
    if (is_alive()) give_up_on(Error("its dialer " + describe(wait_status)));
  });
  if (on_spawn_) on_spawn_({pid_, dialer_.pid});
  oci::ProxyConfig config = make_config_();
  config.flows_seq = last.flows;
  config.blocked_seq = last.blocked;
  state_ = State::kConfiguring;
  set_deadline();
  auto sent = control_.send("configure", oci::print(config),
                            {logs_.flows(), logs_.blocked(), dialer_.proxy_end.get(), logs_.in_flight(), trust_store_.get()});
  dialer_.proxy_end.reset();
  return sent;
}

Result<void> ProxySupervisor::send_listeners() {
  listeners_->leave();
  oci::ListenerList list;
  std::vector<int> fds;
  for (const hooks::Listener& listener : listeners_->sockets()) {
    list.kinds.push_back(listener.kind);
    fds.push_back(listener.socket.get());
  }
  state_ = State::kOpening;
  set_deadline();
  TRY_VOID(control_.send("network", oci::print(network_)));
  return control_.send("listen", oci::print(list), fds);
}

void ProxySupervisor::add_secret(const oci::ProxySecret& secret, OnResult done) {
  // Before "configured" the configuration that is still to be sent has it; afterwards the proxy is told.
  if (state_ == State::kConfigured || state_ == State::kOpening || state_ == State::kRunning ||
      state_ == State::kConfiguring) {
    auto sent = control_.send("secret", oci::print(secret));
    if (sent) {
      secret_waiters_.push_back(std::move(done));
      return;
    }
    give_up_on(sent.error());
  }
  done({});
}

void ProxySupervisor::report(oci::RefusedPacket packet) {
  if (reports_.size() == kMaxReports) {
    reports_.pop_front();
    if (dropped_reports_++ == 0) note("refused packets come faster than the proxy takes them: some are not in blocked.jsonl");
  }
  reports_.push_back(std::move(packet));
  flush_reports();
}

void ProxySupervisor::replace_logs() {
  // Before "configure" it has none; the configuration brings the new ones.
  if (!is_alive() || state_ == State::kStarted) return;
  for (const auto& [name, fd] : {std::pair("flows", logs_.flows()), std::pair("blocked", logs_.blocked())}) {
    auto sent = control_.send("rotated", oci::print(oci::RotateRequest{name}), {fd});
    if (!sent) {
      give_up_on(sent.error());
      return;
    }
  }
}

void ProxySupervisor::flush_reports() {
  if (state_ != State::kRunning) return;
  while (!reports_.empty()) {
    auto sent = control_.send("refused", oci::print(reports_.front()));
    if (!sent) {
      // EAGAIN: its socket is full. Again soon; a death in between is seen elsewhere.
      if (!report_timer_) {
        report_timer_ = loop_.after(milliseconds(100), [this] {
          report_timer_.reset();
          flush_reports();
        });
      }
      return;
    }
    reports_.pop_front();
  }
}

void ProxySupervisor::on_message() {
  // One per event: what is still there makes the descriptor readable again.
  auto received = control_.receive(milliseconds(0));
  if (!received) {
    if (received.error().code() == ETIMEDOUT || received.error().code() == EAGAIN) return;
    give_up_on(received.error());
    return;
  }
  if (!received->has_value()) {
    // It has closed its end, or died: the end of the process says which.
    loop_.unwatch(control_.fd());
    set_deadline();
    return;
  }
  auto handled = handle(std::move(**received));
  if (!handled) give_up_on(handled.error());
}

Result<void> ProxySupervisor::handle(Message message) {
  if (message.kind == "configured" && state_ == State::kConfiguring) {
    state_ = State::kConfigured;
    if (deadline_) loop_.cancel(*std::exchange(deadline_, std::nullopt));
    if (OnResult done = std::exchange(on_configured_, nullptr)) done({});
    advance();
    return {};
  }
  if (message.kind == "listening" && state_ == State::kOpening) {
    state_ = State::kRunning;
    if (deadline_) loop_.cancel(*std::exchange(deadline_, std::nullopt));
    if (OnResult done = std::exchange(on_listening_, nullptr)) done({});
    flush_reports();
    return {};
  }
  if (message.kind == "stored" && !secret_waiters_.empty()) {
    OnResult done = std::move(secret_waiters_.front());
    secret_waiters_.pop_front();
    done({});
    return {};
  }
  if (message.kind == "rotate") {
    TRY(const oci::RotateRequest request, oci::parse_rotate_request(message.body));
    TRY_VOID(logs_.rotate(request.log));
    return control_.send("rotated", oci::print(request), {request.log == "flows" ? logs_.flows() : logs_.blocked()});
  }
  if (message.kind == "who") {
    TRY(const oci::WhoRequest request, oci::parse_who_request(message.body));
    oci::WhoReply reply;
    reply.tag = request.tag;
    if (find_process_) reply = find_process_(request);
    // A proxy that does not read its answers goes without them.
    (void)control_.send("who", oci::print(reply));
    return {};
  }
  if (message.kind == "failed") return Error(EPROTO, message.body.substr(0, 2048));
  return Error(EPROTO, "leash-proxy said '" + message.kind.substr(0, 32) + "', which nobody asked for");
}

void ProxySupervisor::set_deadline() {
  if (deadline_) loop_.cancel(*deadline_);
  deadline_ = loop_.after(kAnswerTime, [this] {
    deadline_.reset();
    // Only waiting for configure() is nobody's fault.
    if (state_ == State::kStarted && control_.valid() && !make_config_) return;
    give_up_on(Error(ETIMEDOUT, "leash-proxy does not answer"));
  });
}

void ProxySupervisor::give_up_on(const Error& reason) {
  if (!is_alive()) return;
  note("leash-proxy is stopped: " + reason.message());
  last_words_ = reason.message();
  const pid_t pid = std::exchange(pid_, 0);
  children_.destroy(pid);
  fail(on_configured_, reason);
  fail(on_listening_, reason);
  mourn();
}

void ProxySupervisor::on_exit(int wait_status) {
  if (!is_alive()) return;
  // Its last words, if it had any, are still in the socket: "failed" with the reason.
  Error reason("leash-proxy " + describe(wait_status));
  while (control_.valid()) {
    auto received = control_.receive(milliseconds(0));
    if (!received || !received->has_value()) break;
    if ((*received)->kind == "failed") reason = Error((*received)->body.substr(0, 2048));
    if ((*received)->kind == "rotate") continue;
  }
  note(reason.message());
  last_words_ = reason.message();
  pid_ = 0;
  fail(on_configured_, reason);
  fail(on_listening_, reason);
  mourn();
}

void ProxySupervisor::fail(OnResult& waiting, const Error& reason) {
  if (OnResult done = std::exchange(waiting, nullptr)) done(reason);
}

// After the end of a proxy: from here connections are refused until the next one listens.
void ProxySupervisor::mourn() {
  if (state_ == State::kStopped) return;  // a callback has stopped us
  state_ = State::kAbsent;
  if (listeners_) listeners_->refuse();
  if (deadline_) loop_.cancel(*std::exchange(deadline_, std::nullopt));
  if (control_.valid()) loop_.unwatch(control_.fd());
  control_ = Channel();
  children_.destroy(std::exchange(dialer_.pid, 0));
  dialer_ = Dialer();
  for (OnResult& waiter : std::exchange(secret_waiters_, {})) waiter({});
  auto settled = logs_.settle();
  if (!settled) note("logs: " + settled.error().message());

  // The first proxy has to come up; whoever waited for it was told that it did not. One that was good
  // once is started again for as long as the container lives.
  if (!make_config_) return;
  const bool was_healthy = Loop::Clock::now() - started_at_ > kHealthyTime;
  backoff_ = was_healthy ? milliseconds(0) : std::min(kLongestBackoff, std::max(milliseconds(50), backoff_ * 2));
  restart_timer_ = loop_.after(backoff_, [this] {
    restart_timer_.reset();
    restart();
  });
}

void ProxySupervisor::restart() {
  ++restarts_;
  auto started = start();
  if (!started) {
    note("restart: " + started.error().message());
    mourn();
    return;
  }
  advance();
}

void ProxySupervisor::stop() {
  if (state_ == State::kStopped) return;
  const bool was_alive = is_alive();
  flush_reports();
  state_ = State::kStopped;
  for (std::optional<Loop::TimerId>* timer : {&deadline_, &restart_timer_, &report_timer_}) {
    if (*timer) loop_.cancel(*std::exchange(*timer, std::nullopt));
  }
  if (control_.valid()) loop_.unwatch(control_.fd());
  if (listeners_) listeners_->refuse();
  listeners_.reset();
  control_ = Channel();  // the end of file on which it exits
  if (dialer_.pid > 0) (void)::kill(dialer_.pid, SIGKILL);  // the two ends overlap
  if (was_alive && pid_ > 0) {
    auto pidfd = sys::pidfd_open(pid_);
    if (pidfd) {
      struct pollfd entry = {pidfd->get(), POLLIN, 0};
      (void)::poll(&entry, 1, static_cast<int>(kFlushTime.count()));
    }
    children_.destroy(std::exchange(pid_, 0));
  }
  children_.destroy(std::exchange(dialer_.pid, 0));
  dialer_ = Dialer();
  auto settled = logs_.settle();
  if (!settled) note("logs: " + settled.error().message());
}

}  // namespace leash::shim
