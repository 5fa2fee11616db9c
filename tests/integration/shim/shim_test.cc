// leash-shim as leash-runtime and the kernel see it: the real program, with a runtime of a few lines and a
// proxy that misbehaves on request. What a step leaves behind is looked for on the machine, not in the
// program: processes, files, cgroups, namespaces.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/file.h"
#include "base/sys.h"
#include "oci-spec/event.h"
#include "oci-spec/proxy_protocol.h"
#include "tests/integration/shim/fake_runtime.h"
#include "tests/unit/catch.h"

using namespace leash;
using leash::test::ask;
using leash::test::Container;
using leash::test::eventually;
using leash::test::in_namespace;

namespace {

bool exists(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

void copy_program(const std::string& from, const std::string& to) {
  REQUIRE(file::write_atomic(to, file::read(from, size_t{512} << 20).value(), 0755));
}

// The programs side by side, as installed; the proxy is the double.
struct Programs {
  Programs() {
    const std::string self = sys::readlinkat(AT_FDCWD, "/proc/self/exe").value();
    const std::string here = self.substr(0, self.rfind('/'));
    copy_program(here + "/leash-shim", directory.path + "/leash-shim");
    copy_program(here + "/shim-test-proxy-double", directory.path + "/leash-proxy");
    REQUIRE(file::make_directories(directory.path + "/rootfs/etc", 0755));
    REQUIRE(file::make_directories(directory.path + "/rootfs/dev", 0755));
  }
  test::Directory directory;
};

// Copied once: many cases, large programs.
const std::string& programs() {
  static const Programs instance;
  return instance.directory.path;
}

std::string unique_id(const std::string& word) { return "test-shim-" + word + "-" + std::to_string(::getpid()); }

// Command lines of living processes that name the container.
std::vector<std::string> processes_of(const std::string& id) {
  std::vector<std::string> found;
  DIR* directory = ::opendir("/proc");
  while (const dirent* entry = ::readdir(directory)) {
    if (std::atoi(entry->d_name) <= 0 || std::atoi(entry->d_name) == ::getpid()) continue;
    auto text = file::read(std::string("/proc/") + entry->d_name + "/cmdline");
    if (!text || text->find(id) == std::string::npos) continue;
    found.push_back(entry->d_name + (" " + *text));
  }
  ::closedir(directory);
  return found;
}

// What of the container is still on this machine; empty: nothing.
std::string traces_of(const Container& container) {
  const std::string& id = container.request.container_id;
  std::string text;
  for (const std::string& path : {container.registry(), oci::registry_directory() + "/@" + id, "/sys/fs/cgroup/unified/leash/" + id, "/sys/fs/cgroup/systemd/leash/" + id,
                                  "/sys/fs/cgroup/leash/" + id, container.request.log_directory}) {
    if (exists(path)) text += path + "\n";
  }
  for (const std::string& process : processes_of(id)) text += process + "\n";
  auto log = file::read(container.request.log_directory + "/shim.log");
  if (log) text += *log;
  return text;
}

// As above, within a few seconds.
std::string lasting_traces_of(const Container& container) {
  (void)eventually([&] { return traces_of(container).empty(); });
  return traces_of(container);
}

std::vector<uint64_t> seqs_of(const std::string& path) {
  std::istringstream lines(file::read(path).value());
  std::vector<uint64_t> seqs;
  std::string line;
  while (std::getline(lines, line)) seqs.push_back(oci::parse_flow_event(line).value().seq);
  return seqs;
}

// A server in the current namespace: for each connection one line is read and answered with its own text
// behind `prefix`. Runs in a fork; its end is the caller's to bring about.
pid_t fork_server(int netns_fd, uint16_t port, const std::string& prefix) {
  auto pipe = sys::pipe().value();
  const pid_t pid = ::fork();
  if (pid == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);  // not left behind when an assertion fails
    pipe.first.reset();
    if (!sys::setns(netns_fd, CLONE_NEWNET)) ::_exit(1);
    const Fd listener(::socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (::bind(listener.get(), reinterpret_cast<const struct sockaddr*>(&address), sizeof address) < 0) ::_exit(1);
    if (::listen(listener.get(), 16) < 0) ::_exit(1);
    pipe.second.reset();
    for (;;) {
      const Fd client(::accept(listener.get(), nullptr, nullptr));
      std::string text;
      char buffer[65536];
      for (ssize_t length = 0; (length = ::recv(client.get(), buffer, sizeof buffer, 0)) > 0;) {
        text.append(buffer, static_cast<size_t>(length));
        if (prefix != "whole:" && text.back() == '\n') break;
      }
      // "whole:" answers after the client has closed its side, with the size of what came.
      text = prefix == "whole:" ? std::to_string(text.size()) + "\n" : prefix + text;
      (void)::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
    }
  }
  pipe.second.reset();
  char byte = 0;
  (void)!::read(pipe.first.get(), &byte, 1);  // the end of file says that it listens
  return pid;
}

void end(pid_t pid) {
  (void)::kill(pid, SIGKILL);
  (void)::waitpid(pid, nullptr, 0);
}

}  // namespace

TEST_CASE("shim: a container is prepared, attached, locked in, and leaves nothing behind") {
  Container container(programs(), unique_id("life"));
  REQUIRE(container.prepare() == "");
  const std::string environment = [&] {
    std::string text;
    for (const std::string& variable : container.prepared.env) text += variable + "\n";
    return text;
  }();
  REQUIRE(environment.find("PATH=/bin\n") != std::string::npos);
  REQUIRE(environment.find("API_KEY=sk-") != std::string::npos);
  REQUIRE(environment.find("0123456789abcdef0123456789abcdef") == std::string::npos);
  REQUIRE_FALSE(container.prepared.mounts.empty());
  REQUIRE(container.attach() == "");
  REQUIRE(container.commit() == "");

  const auto entry = oci::parse_registry_entry(file::read(container.registry() + "/container.json").value()).value();
  REQUIRE(entry.container_id == container.request.container_id);
  REQUIRE(entry.init_pid == container.init_pid);
  REQUIRE(entry.n1_inode != 0);
  REQUIRE(entry.n2_inode == 0);
  struct stat status = {};
  REQUIRE(::stat(container.registry().c_str(), &status) == 0);
  REQUIRE((status.st_mode & 0777) == 0700);
  REQUIRE(::stat((container.registry() + "/shim.sock").c_str(), &status) == 0);
  REQUIRE((status.st_mode & 0777) == 0600);

  REQUIRE(container.start() == "");
  REQUIRE(container.status().locked_in);
  REQUIRE(container.status().entry.n2_inode != container.status().entry.n1_inode);
  REQUIRE(container.ask_proxy("hello") == "hi");

  container.kill_init();
  REQUIRE(container.wait_for_shim_end());
  REQUIRE(traces_of(container) == "");
}

TEST_CASE("shim: the proxy has a uid of its own and nothing else") {
  Container container(programs(), unique_id("ids"));
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  const std::string ids = container.ask_proxy("ids");
  INFO(ids);
  const std::string uid = std::to_string(0x70000000 + std::stoi(container.ask_proxy("pid")));
  REQUIRE(ids == "uid=" + uid + " euid=" + uid + " gid=" + uid +
                     " groups=0 eff=0000000000000000 prm=0000000000000000 bnd=0000000000000000 nnp=1 death=9 core=0 cwd=/"
                     " env=empty fds=0,1,2,3");
  const std::string dialer = "/proc/" + std::to_string(container.status().dialer_pid) + "/status";
  const std::string text = file::read(dialer).value();
  REQUIRE(text.find("CapEff:\t0000000000000000") != std::string::npos);
  REQUIRE(text.find("CapBnd:\t0000000000000000") != std::string::npos);
  REQUIRE(text.find("NoNewPrivs:\t1") != std::string::npos);
  REQUIRE(text.find("Uid:\t0\t") == std::string::npos);
}

TEST_CASE("shim: it has a session and cgroups of its own, and keeps nothing of the engine's") {
  Container container(programs(), unique_id("own"));
  REQUIRE(container.create() == "");
  const std::string proc = "/proc/" + std::to_string(container.shim_pid);
  REQUIRE(::getsid(container.shim_pid) != ::getsid(0));
  const auto is_moved = [&] {
    for (const pid_t pid : {container.shim_pid, static_cast<pid_t>(container.status().proxy_pid), static_cast<pid_t>(container.status().dialer_pid)}) {
      std::istringstream lines(file::read("/proc/" + std::to_string(pid) + "/cgroup").value());
      std::string line;
      while (std::getline(lines, line)) {
        const bool is_counted = line.find(":name=systemd:") != std::string::npos || line.starts_with("0::");
        if (is_counted && !line.ends_with("/leash/" + container.request.container_id)) return false;
      }
    }
    return true;
  };
  REQUIRE(eventually(is_moved));
  for (const char* fd : {"0", "1"}) {
    REQUIRE(sys::readlinkat(AT_FDCWD, proc + "/fd/" + fd).value() == "/dev/null");
  }
  REQUIRE(sys::readlinkat(AT_FDCWD, proc + "/fd/2").value() == container.request.log_directory + "/shim.log");
  // SIGTERM does not take the supervisor from a living container.
  REQUIRE(::kill(container.shim_pid, SIGTERM) == 0);
  REQUIRE(container.status().entry.shim_pid == container.shim_pid);
}

TEST_CASE("shim: a create that is cut off at any step leaves nothing") {
  Container container(programs(), unique_id("cut"));
  const int steps = GENERATE(0, 1, 2, 3);
  if (steps >= 1) REQUIRE(container.prepare() == "");
  if (steps >= 2) REQUIRE(container.attach() == "");
  if (steps >= 3) container.kill_init();  // ready, and then init dies before commit
  container.hang_up();
  REQUIRE(lasting_traces_of(container) == "");
}

TEST_CASE("shim: what cannot be applied is an answer with its name, and no container") {
  struct Case {
    const char* policy;
    const char* named;
    bool at_prepare;
  };
  const Case one = GENERATE(Case{"allow: 3\n", "policy", true}, Case{"nonsense: 1\n", "nonsense", true},
                            Case{"# double: fail-configure\n", "the double was told to fail", false},
                            Case{"# double: die-configure\n", "leash-proxy was killed by signal 9", false});
  Container container(programs(), unique_id("fail"));
  container.request.policy.text = one.policy;
  std::string problem = container.prepare();
  if (!one.at_prepare) {
    REQUIRE(problem == "");
    problem = container.attach();
  }
  INFO(problem);
  REQUIRE(problem.starts_with("failed: "));
  REQUIRE(problem.find(one.named) != std::string::npos);
  REQUIRE(problem.find("no such file or directory") == std::string::npos);
  REQUIRE(eventually([&] { return processes_of(container.request.container_id).empty() && !exists(container.registry()); }));
}

TEST_CASE("shim: a missing leash-proxy is said, in words that are not exit code 127") {
  test::Directory directory;
  copy_program(programs() + "/leash-shim", directory.path + "/leash-shim");
  Container container(directory.path, unique_id("noproxy"));
  const std::string problem = container.prepare();
  INFO(problem);
  REQUIRE(problem.starts_with("failed: proxy: "));
  REQUIRE(problem.find("no such file") == std::string::npos);
  REQUIRE(lasting_traces_of(container) == "");
}

TEST_CASE("shim: a lock-in that fails never says go, and says why") {
  const char* policy = GENERATE("# double: fail-listen\n", "# double: die-listen\n");
  Container container(programs(), unique_id("nogo"));
  container.request.policy.text = policy;
  REQUIRE(container.create() == "");
  const std::string problem = container.start();
  INFO(problem);
  REQUIRE(problem.starts_with("failed: lock-in: "));
  REQUIRE(problem.find("permission denied") == std::string::npos);
  container.kill_init();
  REQUIRE(container.wait_for_shim_end());
  REQUIRE(eventually([&] { return processes_of(container.request.container_id).empty() && !exists(container.registry()); }));
}

TEST_CASE("shim: a killed proxy means refused connections, then a new proxy, and logs without a hole") {
  Container container(programs(), unique_id("crash"));
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  REQUIRE(container.ask_proxy("flow one.example") == "written");
  const std::string first = container.ask_proxy("pid");
  (void)container.ask_proxy("crash");
  // In between nobody hangs: each attempt is answered or refused within its second.
  std::string answer;
  REQUIRE(eventually([&] {
    answer = container.inside([] { return ask("198.51.100.9", 443, "pid", 1000); });
    REQUIRE(answer != "EAGAIN");  // a timeout
    REQUIRE(answer != "ETIMEDOUT");
    return !answer.empty() && answer[0] != 'E';
  }));
  REQUIRE(answer != first);
  REQUIRE(container.status().proxy_restarts == 1);
  REQUIRE(container.ask_proxy("flow four.example") == "written");
  const std::string flows = container.request.log_directory + "/flows.jsonl";
  REQUIRE(seqs_of(flows) == std::vector<uint64_t>{1, 2, 3, 4});
  const std::string text = file::read(flows).value();
  REQUIRE(text.find("first.example") < text.find("second.example"));
  REQUIRE(text.find("proxy_terminated") != std::string::npos);

  // While there is no proxy at all: stopped programs cannot be started, so take the dead time of a backoff.
  for (int i = 0; i < 3; ++i) {
    (void)container.ask_proxy("die");
    const std::string outcome = container.inside([] { return ask("198.51.100.9", 443, "hello", 2000); });
    REQUIRE((outcome == "ECONNREFUSED" || outcome == "ECONNRESET" || outcome == "hi" || outcome.empty()));
    REQUIRE(eventually([&] { return container.ask_proxy("hello") == "hi"; }));
  }
}

TEST_CASE("shim: log files rotate when the proxy asks, and seq goes on") {
  Container container(programs(), unique_id("rotate"));
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  REQUIRE(container.ask_proxy("flow one.example") == "written");
  REQUIRE(container.ask_proxy("rotate") == "rotated");
  (void)container.ask_proxy("die");
  REQUIRE(eventually([&] { return container.ask_proxy("seq") == "1"; }));
  REQUIRE(container.ask_proxy("flow two.example") == "written");
  const std::string flows = container.request.log_directory + "/flows.jsonl";
  REQUIRE(seqs_of(flows + ".1") == std::vector<uint64_t>{1});
  REQUIRE(seqs_of(flows) == std::vector<uint64_t>{2});
}

TEST_CASE("shim: a killed shim means that nothing passes, and cleanup takes what it left") {
  Container container(programs(), unique_id("killed"));
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  REQUIRE(container.ask_proxy("flow one.example") == "written");
  const auto status = container.status();
  REQUIRE(sys::pidfd_send_signal(container.shim_pidfd.get(), SIGKILL));
  REQUIRE(container.wait_for_shim_end());
  REQUIRE(eventually([&] { return ::kill(status.proxy_pid, 0) < 0 && ::kill(status.dialer_pid, 0) < 0; }));
  REQUIRE(container.ask_proxy("hello") == "ECONNREFUSED");
  REQUIRE(exists(container.registry()));

  const std::string& id = container.request.container_id;
  test::run({programs() + "/leash-shim", "--cleanup", id});
  REQUIRE_FALSE(exists(container.registry()));
  REQUIRE(eventually([&] { return processes_of(id).empty(); }));
  REQUIRE(seqs_of(container.request.log_directory + "/flows.jsonl") == std::vector<uint64_t>{1});
  test::run({programs() + "/leash-shim", "--cleanup", id});  // and again
  REQUIRE(container.ask_proxy("hello") == "ECONNREFUSED");
  (void)file::remove_tree(container.request.log_directory);
  REQUIRE(traces_of(container) == "");
}

TEST_CASE("shim: cleanup does not touch a container that is served") {
  Container container(programs(), unique_id("served"));
  REQUIRE(container.create() == "");
  REQUIRE_THROWS(test::run({programs() + "/leash-shim", "--cleanup", container.request.container_id}));
  REQUIRE(container.status().entry.container_id == container.request.container_id);
}

TEST_CASE("shim: the next shim of the same id takes over what a killed one left") {
  const std::string id = unique_id("again");
  {
    Container container(programs(), id);
    REQUIRE(container.create() == "");
    REQUIRE(container.start() == "");
    (void)container.ask_proxy("flow one.example");
    REQUIRE(sys::pidfd_send_signal(container.shim_pidfd.get(), SIGKILL));
    REQUIRE(container.wait_for_shim_end());
  }
  Container container(programs(), id);
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  REQUIRE(container.ask_proxy("seq") == "1");
  REQUIRE(container.ask_proxy("flow two.example") == "written");
  REQUIRE(seqs_of(container.request.log_directory + "/flows.jsonl") == std::vector<uint64_t>{1, 2});
}

TEST_CASE("shim: a second shim for a container that is served is refused") {
  Container container(programs(), unique_id("twice"));
  REQUIRE(container.create() == "");
  Container second(programs(), container.request.container_id);
  const std::string problem = second.prepare();
  REQUIRE(problem.find("already serves container") != std::string::npos);
  REQUIRE(container.status().entry.init_pid == container.init_pid);
}

TEST_CASE("shim: exec gets placeholders, and the proxy knows them before the answer comes") {
  Container container(programs(), unique_id("exec"));
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  const Channel channel = container.connect();
  REQUIRE(channel.send("exec", oci::print(oci::ExecRequest{container.request.container_id,
                                                           {"A=b", "API_KEY=sk-other-fedcba9876543210fedcba9876543210"}})));
  const Message message = channel.receive(std::chrono::milliseconds(5000)).value().value();
  REQUIRE(message.kind == "prepared");
  const auto reply = oci::parse_prepare_reply(message.body).value();
  REQUIRE(reply.env.at(0) == "A=b");
  REQUIRE(reply.env.at(1).starts_with("API_KEY=sk-"));
  REQUIRE(reply.env.at(1).find("fedcba9876543210") == std::string::npos);
  const std::string secrets = container.ask_proxy("secrets");
  REQUIRE(secrets.find(reply.env.at(1).substr(std::strlen("API_KEY="))) != std::string::npos);
  REQUIRE(secrets.find("=sk-other-fedcba9876543210fedcba9876543210;") != std::string::npos);
  REQUIRE(secrets.find("=sk-real-0123456789abcdef0123456789abcdef;") != std::string::npos);
  // A proxy that starts later knows them as well.
  (void)container.ask_proxy("die");
  REQUIRE(eventually([&] { return container.ask_proxy("secrets") == secrets; }));
  // Somebody else's container is not served here; the shim goes on.
  REQUIRE(channel.send("exec", oci::print(oci::ExecRequest{"stranger", {}})));
  REQUIRE(channel.receive(std::chrono::milliseconds(5000)).value()->kind == "failed");
  REQUIRE(container.connect().send("nonsense"));
  REQUIRE(container.status().secrets == std::vector<std::string>{"API_KEY"});
}

TEST_CASE("shim: the built-in policy is named by the runtime and known to the shim") {
  Container container(programs(), unique_id("builtin"));
  container.request.policy = {"built-in", ""};
  container.request.env = {"ANTHROPIC_API_KEY=sk-ant-api03-0123456789abcdef0123456789abcdef"};
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  REQUIRE(container.prepared.env.at(0).starts_with("ANTHROPIC_API_KEY=sk-ant-api03-"));
  REQUIRE(container.prepared.env.at(0).find("0123456789abcdef0123456789abcdef") == std::string::npos);
  REQUIRE(container.ask_proxy("secrets").find("=sk-ant-api03-0123456789abcdef0123456789abcdef;") != std::string::npos);
  REQUIRE(container.status().policy.text.find("api.anthropic.com") != std::string::npos);
}

TEST_CASE("shim: delete's end takes everything down and then closes the connection") {
  Container container(programs(), unique_id("end"));
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  const Channel channel = container.connect();
  REQUIRE(channel.send("end", oci::print(oci::EndRequest{container.request.container_id})));
  REQUIRE_FALSE(channel.receive(std::chrono::milliseconds(5000)).value().has_value());
  REQUIRE_FALSE(exists(container.registry()));
  REQUIRE(container.ask_proxy("hello") == "ECONNREFUSED");
  REQUIRE(container.wait_for_shim_end());
  REQUIRE(traces_of(container) == "");
}

TEST_CASE("shim: only the dialer's sockets reach the world, and never N1 itself or loopback") {
  Container container(programs(), unique_id("dial"));
  REQUIRE(container.prepare() == "");
  REQUIRE(container.attach() == "");
  const Fd world = test::new_network_namespace();
  container.wire(world);
  REQUIRE(container.commit() == "");
  REQUIRE(container.start() == "");
  const pid_t server = fork_server(world.get(), 8443, "world:");
  REQUIRE(container.ask_proxy("dial 203.0.113.1 8443") == "world:ping");
  REQUIRE(container.ask_proxy("dial 203.0.113.1 8444") == "ECONNREFUSED");
  for (const char* never : {"127.0.0.1 8443", "203.0.113.2 8443", "0.0.0.0 8443", "224.0.0.1 80", "255.255.255.255 80",
                            "203.0.113.255 80", "::1 8443", "::ffff:203.0.113.1 8443", "ff02::1 80", "127.0.0.11 80"}) {
    INFO(never);
    REQUIRE(container.ask_proxy(std::string("dial ") + never) == "EACCES");
  }
  // Not refused: nobody answers there in this test, but it is where the engine's resolver would be.
  REQUIRE(container.ask_proxy("dialudp 127.0.0.11 53") == "ECONNREFUSED");
  // The container itself gets nowhere: what it reaches at that address is the proxy.
  REQUIRE(container.inside([] { return ask("203.0.113.1", 8443, "hello"); }) == "hi");
  const std::string network = container.ask_proxy("network");
  REQUIRE(network.find("203.0.113.0/24;") != std::string::npos);
  REQUIRE(network.find("!203.0.113.1;") != std::string::npos);
  REQUIRE(network.find("!203.0.113.2;") != std::string::npos);
  end(server);
}

TEST_CASE("shim: packets that the lock-in refuses are told to the proxy") {
  Container container(programs(), unique_id("refused"));
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  (void)container.inside([] {
    const Fd socket(::socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in peer = {};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(4242);
    (void)::inet_pton(AF_INET, "198.51.100.7", &peer.sin_addr);
    (void)::sendto(socket.get(), "x", 1, 0, reinterpret_cast<const struct sockaddr*>(&peer), sizeof peer);
    return std::string();
  });
  REQUIRE(eventually([&] { return container.ask_proxy("refused").find("udp>198.51.100.7:4242;") != std::string::npos; }));
}

namespace {

// Docker's files beside the bind source of /etc/hostname.
void give_ports(Container& container, const std::string& directory, const std::string& bindings) {
  REQUIRE(file::write_atomic(directory + "/hostname", "host\n", 0644));
  REQUIRE(file::write_atomic(directory + "/config.v2.json",
                             R"({"ID":")" + container.request.container_id + R"(","Name":"/web","Config":{"ExposedPorts":{}}})", 0600));
  REQUIRE(file::write_atomic(directory + "/hostconfig.json", R"({"PortBindings":)" + bindings + "}", 0600));
  container.request.mounts.push_back({"/etc/hostname", "bind", directory + "/hostname", {"rbind"}});
}

}  // namespace

TEST_CASE("shim: the proxy is told which process has connected, by whatever name it goes") {
  Container container(programs(), unique_id("who"));
  REQUIRE(container.create().empty());
  REQUIRE(container.start().empty());
  const std::string exe = sys::readlinkat(AT_FDCWD, "/proc/self/exe").value().substr(0, oci::kMaxProcessText);
  const std::vector<std::pair<const char*, const char*>> names = {
      {"curl", "curl"}, {"a \"b\x1b", "a \"b\x1b"}, {"\xff", "\xef\xbf\xbd"}};
  for (const auto& [name, shown] : names) {
    const std::string text = container.inside([name = name] {
      (void)::prctl(PR_SET_NAME, name);
      return std::to_string(::getpid()) + "|" + ask("203.0.113.9", 443, "who");
    });
    const std::string pid = text.substr(0, text.find('|'));
    CHECK(text == pid + "|" + pid + " " + shown + " (" + exe + ")");
  }
  container.kill_init();
  REQUIRE(container.wait_for_shim_end());
}

TEST_CASE("shim: published ports come in through the relay, both directions close on their own") {
  Container container(programs(), unique_id("inbound"));
  test::Directory engine;
  give_ports(container, engine.path, R"({"8080/tcp":[{"HostIp":"","HostPort":"80"}],"8081/tcp":[],"8082/tcp":[]})");
  REQUIRE(container.prepare() == "");
  REQUIRE(container.attach() == "");
  const Fd world = test::new_network_namespace();
  container.wire(world);
  REQUIRE(container.commit() == "");
  REQUIRE(container.status().entry.name == "web");
  REQUIRE(container.status().inbound_ports == std::vector<uint16_t>{8080, 8081, 8082});
  const auto from_world = [&](uint16_t port, int timeout_ms) {
    return in_namespace(world.get(), [&] { return ask("203.0.113.2", port, "hello", timeout_ms); });
  };
  REQUIRE(from_world(8080, 1000) == "ECONNREFUSED");  // created, not started
  REQUIRE(container.start() == "");
  const Fd n2 = sys::open("/proc/" + std::to_string(container.init_pid) + "/ns/net", O_RDONLY).value();
  const pid_t echo = fork_server(n2.get(), 8080, "container:");
  const pid_t whole = fork_server(n2.get(), 8081, "whole:");
  const pid_t hidden = fork_server(n2.get(), 9000, "hidden:");
  REQUIRE(from_world(8080, 3000) == "container:hello");
  // Published, and nobody listens inside.
  const std::string nobody = from_world(8082, 1000);
  REQUIRE((nobody == "ECONNRESET" || nobody == "ECONNREFUSED"));
  // Not published: nothing comes in, the relay's own port included.
  const std::string closed = from_world(9000, 300);
  REQUIRE((closed == "EINPROGRESS" || closed == "EAGAIN" || closed == "ETIMEDOUT" || closed == "ECONNREFUSED"));
  for (uint16_t port = 15080; port < 15083; ++port) {
    const std::string direct = from_world(port, 200);
    REQUIRE((direct == "EINPROGRESS" || direct == "EAGAIN" || direct == "ETIMEDOUT" || direct == "ECONNREFUSED" || direct == "ECONNRESET"));
  }
  // 32 MiB in, then the client closes its side alone and still gets the answer.
  const std::string size = in_namespace(world.get(), [] {
    const Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in peer = {};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(8081);
    (void)::inet_pton(AF_INET, "203.0.113.2", &peer.sin_addr);
    if (::connect(socket.get(), reinterpret_cast<const struct sockaddr*>(&peer), sizeof peer) < 0) return std::string("no connection");
    const std::string data(size_t{32} << 20, 'x');
    if (!sys::write_all(socket.get(), data)) return std::string("no write");
    (void)::shutdown(socket.get(), SHUT_WR);
    return sys::read_all(socket.get()).value();
  });
  REQUIRE(size == "33554432\n");
  for (const pid_t pid : {echo, whole, hidden}) end(pid);
  container.kill_init();
  REQUIRE(container.wait_for_shim_end());
  (void)file::remove_tree(container.request.log_directory);
  REQUIRE(traces_of(container) == "");
}

TEST_CASE("shim: a container that joins shares proxy and N2, has secrets of its own, and keeps the shim") {
  Container owner(programs(), unique_id("owner"));
  REQUIRE(owner.create() == "");
  const std::string joiner = unique_id("joiner");
  oci::PrepareRequest request = owner.request;
  request.container_id = joiner;
  request.env = {"API_KEY=sk-joiner-0123456789abcdef0123456789"};
  {
    const Channel early = owner.connect();
    REQUIRE(early.send("prepare", oci::print(request)));
    const auto answer = early.receive(std::chrono::milliseconds(5000)).value().value();
    REQUIRE(answer.kind == "failed");
    REQUIRE(answer.body.find("not running") != std::string::npos);
  }
  REQUIRE(owner.start() == "");
  {
    oci::PrepareRequest other = request;
    other.policy = {"other.yaml", "allow: [other.example]\n"};
    other.policy_is_explicit = true;
    const Channel channel = owner.connect();
    REQUIRE(channel.send("prepare", oci::print(other)));
    const auto answer = channel.receive(std::chrono::milliseconds(5000)).value().value();
    REQUIRE(answer.kind == "failed");
    REQUIRE(answer.body.find("other.yaml") != std::string::npos);
  }
  const std::string directory = oci::registry_directory() + "/" + joiner;
  {
    const Channel aborted = owner.connect();
    REQUIRE(aborted.send("prepare", oci::print(request)));
    REQUIRE(aborted.receive(std::chrono::milliseconds(5000)).value()->kind == "prepared");
    REQUIRE(exists(directory));
  }
  REQUIRE(eventually([&] { return !exists(directory); }));

  Channel channel = owner.connect();
  REQUIRE(channel.send("prepare", oci::print(request)));
  const auto prepared = channel.receive(std::chrono::milliseconds(5000)).value().value();
  REQUIRE(prepared.kind == "prepared");
  REQUIRE(prepared.fds.size() == 1);
  REQUIRE(prepared.body.find("0123456789abcdef0123456789") == std::string::npos);
  const pid_t member = ::fork();
  if (member == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sys::setns(prepared.fds[0].get(), CLONE_NEWNET);
    for (;;) ::pause();
  }
  const Fd pidfd = sys::pidfd_open(member).value();
  oci::AttachRequest attach;
  attach.init_pid = member;
  REQUIRE(channel.send("join", oci::print(attach), {pidfd.get()}));
  REQUIRE(channel.receive(std::chrono::milliseconds(5000)).value()->kind == "joined");
  { const Fd closed = channel.release(); }
  REQUIRE(owner.ask_proxy("secrets").find("=sk-joiner-0123456789abcdef0123456789;") != std::string::npos);
  const auto entry = oci::parse_registry_entry(file::read(directory + "/container.json").value()).value();
  REQUIRE(entry.network_of == owner.request.container_id);
  REQUIRE(entry.init_pid == member);
  REQUIRE(entry.n2_inode == owner.status().entry.n2_inode);
  // Its own socket leads to the same shim.
  const Channel own = Channel::connect(directory + "/shim.sock").value();
  REQUIRE(own.send("exec", oci::print(oci::ExecRequest{joiner, {"API_KEY=sk-joiner-0123456789abcdef0123456789"}})));
  REQUIRE(own.receive(std::chrono::milliseconds(5000)).value()->kind == "prepared");
  REQUIRE(own.send("status"));
  REQUIRE(oci::parse_status_report(own.receive(std::chrono::milliseconds(5000)).value()->body).value().members == std::vector<std::string>{joiner});

  // The owner goes, the member keeps its network, and the owner's name is free for its next life.
  const Fd n2 = sys::open("/proc/" + std::to_string(member) + "/ns/net", O_RDONLY).value();
  const auto from_member = [&](const std::string& line) {
    return in_namespace(n2.get(), [&] { return ask("198.51.100.9", 443, line); });
  };
  REQUIRE(from_member("flow owners.example") == "written");
  owner.kill_init();
  REQUIRE_FALSE(owner.wait_for_shim_end(200));
  REQUIRE(from_member("hello") == "hi");
  const std::string proxy = from_member("pid");
  const Channel farewell = owner.connect();
  REQUIRE(farewell.send("end", oci::print(oci::EndRequest{owner.request.container_id})));
  REQUIRE_FALSE(farewell.receive(std::chrono::milliseconds(5000)).value().has_value());
  REQUIRE_FALSE(exists(owner.registry()));
  {
    Container again(programs(), owner.request.container_id);
    REQUIRE(again.create() == "");
    REQUIRE(again.start() == "");
    REQUIRE(again.ask_proxy("seq") == "1");
    REQUIRE(from_member("pid") == proxy);
    REQUIRE(from_member("flow members.example") == "written");
    again.kill_init();
    REQUIRE(again.wait_for_shim_end());
  }
  REQUIRE(from_member("hello") == "hi");
  const Channel heir = Channel::connect(directory + "/shim.sock").value();
  REQUIRE(heir.send("status"));
  const auto inherited = oci::parse_status_report(heir.receive(std::chrono::milliseconds(5000)).value()->body).value();
  REQUIRE(inherited.entry.container_id == joiner);
  REQUIRE(inherited.entry.init_pid == member);
  REQUIRE(file::read(inherited.entry.log_directory + "/flows.jsonl").value().find("members.example") != std::string::npos);
  REQUIRE(seqs_of(owner.request.log_directory + "/flows.jsonl") == std::vector<uint64_t>{1});
  end(member);
  REQUIRE(owner.wait_for_shim_end());
  REQUIRE_FALSE(exists(directory));
  (void)file::remove_tree(owner.request.log_directory);  // it tells of the two refused requests
  (void)file::remove_tree(inherited.entry.log_directory);
  REQUIRE(traces_of(owner) == "");
  REQUIRE_FALSE(exists("/sys/fs/cgroup/unified/leash/" + joiner));
  REQUIRE_FALSE(exists("/sys/fs/cgroup/systemd/leash/" + joiner));
}

TEST_CASE("shim: with the host's network the host's namespace gets no rules") {
  Container container(programs(), unique_id("host"));
  container.is_in_hosts_network = true;
  REQUIRE(container.create() == "");
  REQUIRE(container.start() == "");
  REQUIRE(container.ask_proxy("hello") == "hi");
  REQUIRE(container.ask_proxy("dial 127.0.0.1 22") == "EACCES");
  REQUIRE_THROWS(test::run({"nft", "list", "table", "inet", "leash"}));
}

TEST_CASE("shim: a hundred containers leave nothing behind") {
  for (int i = 0; i < 100; ++i) {
    Container container(programs(), unique_id("many" + std::to_string(i)));
    REQUIRE(container.create() == "");
    if (i % 2 == 0) REQUIRE(container.start() == "");
    if (i % 4 == 0) REQUIRE(container.ask_proxy("hello") == "hi");
    container.kill_init();
    REQUIRE(container.wait_for_shim_end());
    REQUIRE(traces_of(container) == "");
  }
  REQUIRE(file::read("/proc/self/mountinfo").value().find("test-shim-many") == std::string::npos);
  REQUIRE(processes_of("test-shim-many").empty());
}
