#include "tests/integration/shim/fake_runtime.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/file.h"
#include "base/sys.h"

namespace leash::test {

namespace {

[[noreturn]] void give_up(const std::string& what) { throw std::runtime_error(what + ": " + errno_text(errno)); }

}  // namespace

std::string in_namespace(int netns_fd, const std::function<std::string()>& work) {
  auto pipe = sys::pipe().value();
  const pid_t pid = ::fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string result = "setns failed";
    if (sys::setns(netns_fd, CLONE_NEWNET)) result = work();
    (void)sys::write_all(pipe.second.get(), result);
    ::_exit(0);
  }
  pipe.second.reset();
  std::string result = sys::read_all(pipe.first.get()).value();
  (void)::waitpid(pid, nullptr, 0);
  return result;
}

std::string ask(const std::string& address, uint16_t port, const std::string& line, int timeout_ms) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const struct timeval timeout = {timeout_ms / 1000, (timeout_ms % 1000) * 1000};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  struct sockaddr_in peer = {};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(port);
  (void)::inet_pton(AF_INET, address.c_str(), &peer.sin_addr);
  if (::connect(socket.get(), reinterpret_cast<const struct sockaddr*>(&peer), sizeof peer) < 0) return ::strerrorname_np(errno);
  const std::string text = line + "\n";
  if (::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return ::strerrorname_np(errno);
  std::string answer;
  for (char byte = 0;;) {
    const ssize_t length = ::recv(socket.get(), &byte, 1, 0);
    if (length < 0) return ::strerrorname_np(errno);
    if (length == 0 || byte == '\n') return answer;
    answer += byte;
  }
}

void run(const std::vector<std::string>& words) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) < 0 || status != 0) throw std::runtime_error("'" + words[0] + "' failed");
}

bool eventually(const std::function<bool()>& claim, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!claim()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::usleep(2000);
  }
  return true;
}

Fd new_network_namespace() {
  Fd home = sys::open("/proc/self/ns/net", O_RDONLY).value();
  if (!sys::unshare(CLONE_NEWNET)) give_up("unshare");
  Fd made = sys::open("/proc/self/ns/net", O_RDONLY).value();
  run({"ip", "link", "set", "lo", "up"});
  if (!sys::setns(home.get(), CLONE_NEWNET)) std::abort();
  return made;
}

Directory::Directory() {
  char name[] = "/tmp/leash-shim-test-XXXXXX";
  path = ::mkdtemp(name);
  (void)::chmod(path.c_str(), 0755);
}
Directory::~Directory() { (void)file::remove_tree(path); }

Container::Container(std::string programs, std::string id) : programs_(std::move(programs)) {
  request.container_id = std::move(id);
  request.bundle = programs_;
  request.rootfs = programs_ + "/rootfs";
  request.runtime_root = programs_;
  request.policy = {"test.yaml", "allow: [api.example.com]\nsecrets:\n  - env: API_KEY\n    hosts: [api.example.com]\n"};
  request.env = {"PATH=/bin", "API_KEY=sk-real-0123456789abcdef0123456789abcdef"};
  request.log_directory = programs_ + "/log-" + request.container_id;
}

Container::~Container() {
  hang_up();
  kill_init();
  if (shim_pidfd && !wait_for_shim_end(3000)) (void)sys::pidfd_send_signal(shim_pidfd.get(), SIGKILL);
}

void Container::hang_up() {
  runtime_ = Channel();
  lock_for_shim_.reset();
}

std::string Container::expect(const char* kind, std::optional<Message>* message) {
  auto received = runtime_.receive(std::chrono::milliseconds(10000));
  if (!received) return received.error().message();
  if (!received->has_value()) return "eof";
  if ((*received)->kind != kind) return (*received)->kind + ": " + (*received)->body;
  if (message != nullptr) *message = std::move(*received);
  return "";
}

std::string Container::prepare() {
  auto ends = Channel::pair().value();
  const pid_t pid = ::fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) {
    const int copy = ::fcntl(ends.second.fd(), F_DUPFD, 10);
    (void)::dup2(copy, 3);
    (void)::close(copy);
    const std::string program = programs_ + "/leash-shim";
    const std::string& id = request.container_id;
    char* const arguments[] = {const_cast<char*>("leash-shim"), const_cast<char*>(id.c_str()), nullptr};
    char* const environment[] = {nullptr};
    ::execve(program.c_str(), arguments, environment);
    ::_exit(127);
  }
  runtime_ = std::move(ends.first);
  { const Fd closed = ends.second.release(); }
  const auto sent = runtime_.send("prepare", oci::print(request));
  (void)::waitpid(pid, nullptr, 0);  // the first process ends at once, the shim is its child
  if (!sent) return "eof";
  std::optional<Message> message;
  const std::string problem = expect("prepared", &message);
  if (problem.empty()) prepared = oci::parse_prepare_reply(message->body).value();
  return problem;
}

void Container::fork_init() {
  auto commands = sys::socketpair(SOCK_SEQPACKET).value();
  auto lock = sys::socketpair(SOCK_SEQPACKET).value();
  const bool has_own = !is_in_hosts_network;
  init_pid = ::fork();
  if (init_pid < 0) give_up("fork");
  if (init_pid == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    commands.first.reset();
    lock.first.reset();
    runtime_ = Channel();  // or the shim would not see that create has died
    if (has_own && !sys::unshare(CLONE_NEWNET)) ::_exit(1);
    (void)::send(commands.second.get(), "ready", 5, 0);
    const Channel channel{std::move(lock.second)};
    char command[16] = {};
    while (::recv(commands.second.get(), command, sizeof command, 0) > 0) {
      // "start": the only command there is.
      if (!sys::unshare(CLONE_NEWNET)) ::_exit(1);
      (void)channel.send("n2");
      auto answer = channel.receive(std::chrono::milliseconds(10000));
      std::string text = "eof";
      if (answer && answer->has_value()) text = (*answer)->kind == "go" ? "go" : (*answer)->kind + ": " + (*answer)->body;
      (void)::send(commands.second.get(), text.data(), text.size(), 0);
      if (text != "go") ::_exit(1);
    }
    ::_exit(0);
  }
  init_commands_ = std::move(commands.first);
  lock_for_shim_ = std::move(lock.first);
  char ready[8] = {};
  if (::recv(init_commands_.get(), ready, sizeof ready, 0) != 5) give_up("init");
  n1 = sys::open("/proc/" + std::to_string(init_pid) + "/ns/net", O_RDONLY).value();
}

std::string Container::attach() {
  if (init_pid == 0) fork_init();
  const Fd pidfd = sys::pidfd_open(init_pid).value();
  oci::AttachRequest attach_request;
  attach_request.init_pid = init_pid;
  attach_request.network = is_in_hosts_network ? oci::NetworkKind::kHost : oci::NetworkKind::kNew;
  if (!runtime_.send("attach", oci::print(attach_request), {pidfd.get(), n1.get(), lock_for_shim_.get()})) return "eof";
  lock_for_shim_.reset();
  const std::string problem = expect("ready");
  if (problem.empty()) {
    shim_pid = status().entry.shim_pid;
    shim_pidfd = sys::pidfd_open(shim_pid).value();
  }
  return problem;
}

std::string Container::commit() {
  if (!runtime_.send("commit")) return "eof";
  // The shim closes its end: from here it is on its own.
  auto received = runtime_.receive(std::chrono::milliseconds(5000));
  runtime_ = Channel();
  if (!received) return received.error().message();
  return received->has_value() ? (*received)->kind + ": " + (*received)->body : "";
}

std::string Container::start() {
  (void)::send(init_commands_.get(), "start", 5, 0);
  char answer[4096] = {};
  const ssize_t length = ::recv(init_commands_.get(), answer, sizeof answer - 1, 0);
  if (length <= 0) return "init is gone";
  const std::string text(answer, static_cast<size_t>(length));
  return text == "go" ? "" : text;
}

void Container::kill_init() {
  if (init_pid == 0) return;
  (void)::kill(init_pid, SIGKILL);
  (void)::waitpid(init_pid, nullptr, 0);
  init_pid = 0;
  init_commands_.reset();
}

bool Container::wait_for_shim_end(int milliseconds) const {
  struct pollfd entry = {shim_pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, milliseconds) > 0;
}

Channel Container::connect() const { return Channel::connect(registry() + "/shim.sock").value(); }

oci::StatusReport Container::status() const {
  const Channel channel = connect();
  (void)channel.send("status");
  return oci::parse_status_report(channel.receive(std::chrono::milliseconds(5000)).value().value().body).value();
}

std::string Container::inside(const std::function<std::string()>& work) const {
  const Fd n2 = sys::open("/proc/" + std::to_string(init_pid) + "/ns/net", O_RDONLY).value();
  return in_namespace(n2.get(), work);
}

std::string Container::ask_proxy(const std::string& line) const {
  // Any address will do: all TCP ends at the proxy.
  return inside([&] { return ask("198.51.100.9", 443, line); });
}

void Container::wire(const Fd& world, const std::string& host_octet) const {
  const std::string name = "w" + host_octet;
  const std::string problem = in_namespace(world.get(), [&] {
    try {
      run({"ip", "link", "add", name, "type", "veth", "peer", "name", "tmp" + name});
      run({"ip", "address", "add", "203.0.113." + host_octet + "/24", "dev", name});
      run({"ip", "link", "set", name, "up"});
      run({"ip", "link", "set", "tmp" + name, "netns", std::to_string(init_pid), "name", "eth0"});
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  if (!problem.empty()) throw std::runtime_error(problem);
  const std::string other = in_namespace(n1.get(), [&] {
    try {
      run({"ip", "link", "set", "lo", "up"});
      run({"ip", "address", "add", "203.0.113.2/24", "dev", "eth0"});
      run({"ip", "link", "set", "eth0", "up"});
      run({"ip", "route", "add", "default", "via", "203.0.113." + host_octet});
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  if (!other.empty()) throw std::runtime_error(other);
}

}  // namespace leash::test
