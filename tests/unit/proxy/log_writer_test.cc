#include "proxy/log_writer.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

Fd table_file() {
  Result<Fd> file = sys::memfd_create("table", 0);
  REQUIRE(file);
  REQUIRE(::ftruncate(file->get(), static_cast<off_t>(sizeof(oci::InFlightSlot) * oci::kInFlightSlots)) == 0);
  return std::move(file).value();
}

Fd duplicate(const Fd& fd) { return Fd(::dup(fd.get())); }

std::string contents(const Fd& fd) {
  REQUIRE(::lseek(fd.get(), 0, SEEK_SET) == 0);
  Result<std::string> text = sys::read_all(fd.get());
  REQUIRE(text);
  return std::move(text).value();
}

}  // namespace

TEST_CASE("log_writer: lines are numbered on from the last one, without holes") {
  InFlightTable table;
  REQUIRE(table.map(table_file()));
  LogWriter writer(table);
  Result<Fd> file = sys::memfd_create("flows", 0);
  REQUIRE(file);
  writer.open(Log::kFlows, duplicate(*file), 41, 0);
  oci::FlowEvent event;
  writer.write(event);
  writer.write(event);
  const std::string text = contents(*file);
  CHECK(text.find("\"seq\":42") != std::string::npos);
  CHECK(text.find("\"seq\":43") != std::string::npos);
  CHECK(oci::last_seq(text) == 43);
}

TEST_CASE("log_writer: a slot is numbered before its line and freed after it") {
  InFlightTable table;
  REQUIRE(table.map(table_file()));
  LogWriter writer(table);
  Result<Fd> file = sys::memfd_create("flows", 0);
  REQUIRE(file);
  writer.open(Log::kBlocked, duplicate(*file), 6, 0);
  oci::InFlightSlot* const slot = table.take();
  REQUIRE(slot != nullptr);
  CHECK(table.in_use() == 1);
  CHECK(slot->state == 1);
  oci::BlockedEvent event;
  writer.write(event, slot);
  CHECK(slot->seq == 7);
  CHECK(slot->log == 1);
  CHECK(slot->state == 0);
  CHECK(table.in_use() == 0);
}

TEST_CASE("log_writer: what cannot be written waits in order and is not healthy") {
  InFlightTable table;
  REQUIRE(table.map(table_file()));
  LogWriter writer(table);
  int troubles = 0;
  writer.on_trouble([&] { ++troubles; });
  // A full device: every write is ENOSPC.
  Result<Fd> full = sys::open("/dev/full", O_WRONLY);
  REQUIRE(full);
  writer.open(Log::kFlows, std::move(full).value(), 0, 0);
  oci::InFlightSlot* const slot = table.take();
  oci::FlowEvent event;
  writer.write(event, slot);
  writer.write(event);
  CHECK_FALSE(writer.healthy());
  CHECK(troubles == 2);
  CHECK(slot->state == 1);
  CHECK_FALSE(writer.retry());
  Result<Fd> file = sys::memfd_create("flows", 0);
  REQUIRE(file);
  writer.replace(Log::kFlows, duplicate(*file));
  CHECK(writer.retry());
  CHECK(slot->state == 0);
  const std::string text = contents(*file);
  CHECK(text.find("\"seq\":1") < text.find("\"seq\":2"));
  CHECK(oci::last_seq(text) == 2);
}

TEST_CASE("log_writer: a full file is reported once until it is replaced") {
  InFlightTable table;
  REQUIRE(table.map(table_file()));
  LogWriter writer(table);
  int asked = 0;
  writer.on_full([&](Log) { ++asked; });
  Result<Fd> file = sys::memfd_create("flows", 0);
  REQUIRE(file);
  writer.open(Log::kFlows, duplicate(*file), 0, 100);
  oci::FlowEvent event;
  for (int i = 0; i < 5; ++i) writer.write(event);
  CHECK(asked == 1);
}

TEST_CASE("in_flight: more exchanges than slots get none") {
  InFlightTable table;
  REQUIRE(table.map(table_file()));
  for (uint32_t i = 0; i < oci::kInFlightSlots; ++i) REQUIRE(table.take() != nullptr);
  CHECK(table.take() == nullptr);
}

}  // namespace leash::proxy
