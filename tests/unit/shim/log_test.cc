#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/sys.h"
#include "oci-spec/event.h"
#include "oci-spec/proxy_protocol.h"
#include "shim/log_files.h"
#include "shim/log_tail.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

struct Directory {
  Directory() {
    char name[] = "/tmp/leash-log-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Directory() { (void)file::remove_tree(path); }
  std::string path;
};

std::string line_of(uint64_t seq) {
  oci::FlowEvent event;
  event.time_us = 1700000000000000;
  event.seq = seq;
  event.id = "x";
  event.container = "c";
  event.scheme = "https";
  event.host = "a.example";
  std::string line;
  oci::print(event, line);
  return line;
}

std::vector<uint64_t> seqs_of(const std::string& path) {
  const std::string text = file::read(path).value();
  std::vector<uint64_t> seqs;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    REQUIRE(end != std::string::npos);
    seqs.push_back(oci::parse_flow_event(std::string_view(text).substr(start, end - start)).value().seq);
    start = end + 1;
  }
  return seqs;
}

// The proxy's side of the in-flight table.
struct Table {
  explicit Table(int fd) {
    constexpr size_t kSize = sizeof(oci::InFlightSlot) * oci::kInFlightSlots;
    slots = static_cast<oci::InFlightSlot*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    REQUIRE(slots != MAP_FAILED);
  }
  ~Table() { ::munmap(slots, sizeof(oci::InFlightSlot) * oci::kInFlightSlots); }
  void take(size_t index, int64_t started_us, uint64_t seq, const char* host) const {
    oci::InFlightSlot& slot = slots[index];
    slot.seq = seq;
    slot.started_us = started_us;
    std::strncpy(slot.scheme, "https", sizeof slot.scheme - 1);
    std::strncpy(slot.host, host, sizeof slot.host - 1);
    std::strncpy(slot.method, "GET", sizeof slot.method - 1);
    slot.bytes_up = 10;
    slot.state = 1;
  }
  oci::InFlightSlot* slots;
};

}  // namespace

TEST_CASE("log tail: a torn last line is cut off and the seq before it counts") {
  Directory directory;
  const std::string path = directory.path + "/flows.jsonl";
  const std::string whole = line_of(1) + line_of(2);
  for (const std::string& torn : {line_of(3).substr(0, 40), std::string("{"), line_of(3).substr(0, line_of(3).size() - 1)}) {
    REQUIRE(file::write_atomic(path, whole + torn, 0600));
    const Fd fd = sys::open(path, O_RDWR | O_APPEND).value();
    REQUIRE(shim::repair_tail(fd.get()).value() == 2);
    REQUIRE(file::read(path).value() == whole);
  }
}

TEST_CASE("log tail: a file that is empty, or only a torn line, counts from the start") {
  Directory directory;
  const std::string path = directory.path + "/flows.jsonl";
  for (const char* text : {"", "{\"seq\":7"}) {
    REQUIRE(file::write_atomic(path, text, 0600));
    const Fd fd = sys::open(path, O_RDWR | O_APPEND).value();
    REQUIRE(shim::repair_tail(fd.get()).value() == 0);
    REQUIRE(file::read(path).value().empty());
  }
}

TEST_CASE("log files: every exchange a killed proxy left gets one line, seq without hole or duplicate") {
  Directory directory;
  auto logs = shim::LogFiles::open(directory.path, directory.path + "/in-flight", "web").value();
  REQUIRE(sys::write_all(logs.flows(), line_of(1) + line_of(2) + line_of(3) + line_of(4).substr(0, 50)));
  {
    const Table table(logs.in_flight());
    table.take(0, 1700000000000300, 3, "written.example");  // its line is in the file
    table.take(5, 1700000000000200, 0, "second.example");
    table.take(8191, 1700000000000100, 4, "torn.example");  // its line was being written
  }
  const auto last = logs.settle().value();
  REQUIRE(last.flows == 5);
  REQUIRE(last.blocked == 0);
  REQUIRE(seqs_of(directory.path + "/flows.jsonl") == std::vector<uint64_t>{1, 2, 3, 4, 5});
  const std::string text = file::read(directory.path + "/flows.jsonl").value();
  REQUIRE(text.find("torn.example") < text.find("second.example"));
  REQUIRE(text.find("proxy_terminated") != std::string::npos);
  REQUIRE(text.find("written.example") == std::string::npos);
  REQUIRE(logs.settle().value().flows == 5);  // nothing is written twice
  REQUIRE(seqs_of(directory.path + "/flows.jsonl").size() == 5);
}

TEST_CASE("log files: a slot whose line was for blocked.jsonl is measured by that log's numbers") {
  Directory directory;
  auto logs = shim::LogFiles::open(directory.path, directory.path + "/in-flight", "web").value();
  REQUIRE(sys::write_all(logs.flows(), line_of(1) + line_of(2)));
  {
    const Table table(logs.in_flight());
    table.take(0, 1700000000000300, 1, "unwritten.example");
    table.slots[0].log = 1;
  }
  REQUIRE(logs.settle().value().flows == 3);
}

TEST_CASE("log files: a table that a hostile proxy filled still gives readable lines") {
  Directory directory;
  auto logs = shim::LogFiles::open(directory.path, directory.path + "/in-flight", "web").value();
  {
    const Table table(logs.in_flight());
    std::memset(static_cast<void*>(&table.slots[0]), 0xff, sizeof(oci::InFlightSlot));
    std::memset(static_cast<void*>(&table.slots[1]), 0x0a, sizeof(oci::InFlightSlot));
  }
  REQUIRE(logs.settle().value().flows == 2);
  REQUIRE(seqs_of(directory.path + "/flows.jsonl") == std::vector<uint64_t>{1, 2});
}

TEST_CASE("log files: seq goes on after a rotation, and four old files are kept") {
  Directory directory;
  auto logs = shim::LogFiles::open(directory.path, directory.path + "/in-flight", "web").value();
  for (uint64_t seq = 1; seq <= 6; ++seq) {
    REQUIRE(sys::write_all(logs.flows(), line_of(seq)));
    REQUIRE(logs.rotate("flows"));
    REQUIRE(logs.settle().value().flows == seq);
  }
  REQUIRE(seqs_of(directory.path + "/flows.jsonl.1") == std::vector<uint64_t>{6});
  REQUIRE(seqs_of(directory.path + "/flows.jsonl.4") == std::vector<uint64_t>{3});
  REQUIRE_FALSE(file::read(directory.path + "/flows.jsonl.5"));
  REQUIRE_FALSE(logs.rotate("../shim"));
}

TEST_CASE("log files: the in-flight table takes no memory until it is used") {
  Directory directory;
  auto logs = shim::LogFiles::open(directory.path, directory.path + "/in-flight", "web").value();
  REQUIRE(logs.settle());
  struct stat status = {};
  REQUIRE(::stat((directory.path + "/in-flight").c_str(), &status) == 0);
  REQUIRE(status.st_size == 8192 * 512);
  REQUIRE(status.st_blocks == 0);
}

TEST_CASE("log files: empty logs and their directory go at the end, others stay") {
  Directory directory;
  const std::string path = directory.path + "/log";
  {
    auto logs = shim::LogFiles::open(path, directory.path + "/in-flight", "web").value();
    logs.remove_empty_files();
    logs.remove_empty_directory();
    struct stat status = {};
    REQUIRE(::stat(path.c_str(), &status) != 0);
  }
  auto logs = shim::LogFiles::open(path, directory.path + "/in-flight", "web").value();
  REQUIRE(sys::write_all(logs.blocked(), "{}\n"));
  logs.remove_empty_files();
  logs.remove_empty_directory();
  REQUIRE(file::read(path + "/blocked.jsonl").value() == "{}\n");
  REQUIRE_FALSE(file::read(path + "/flows.jsonl"));
}
