#include "oci-spec/shim_protocol.h"

#include "tests/unit/catch.h"

using namespace leash::oci;

TEST_CASE("shim protocol: a prepare request arrives as it was sent") {
  PrepareRequest sent;
  sent.container_id = "c1";
  sent.bundle = "/b";
  sent.rootfs = "/b/rootfs";
  sent.runtime_root = "/run/r";
  sent.policy = {"built-in", "mode: enforce\n\"quoted\"\n"};
  sent.env = {"A=\"b\"\n", "PATH=/bin", "EMPTY="};
  sent.mounts = {{"/etc/hosts", "bind", "/x", {"rbind", "ro"}}, {"/dev", "tmpfs", "tmpfs", {}}};
  sent.trust_store = "/roots.pem";
  sent.log_directory = "/log";
  sent.has_user_namespace = true;
  const PrepareRequest got = parse_prepare_request(print(sent)).value();
  REQUIRE(got.container_id == "c1");
  REQUIRE(got.bundle == "/b");
  REQUIRE(got.rootfs == "/b/rootfs");
  REQUIRE(got.runtime_root == "/run/r");
  REQUIRE(got.policy.source == "built-in");
  REQUIRE(got.policy.text == sent.policy.text);
  REQUIRE(got.env == sent.env);
  REQUIRE(got.mounts.size() == 2);
  REQUIRE(got.mounts[0].destination == "/etc/hosts");
  REQUIRE(got.mounts[0].options == std::vector<std::string>{"rbind", "ro"});
  REQUIRE(got.mounts[1].type == "tmpfs");
  REQUIRE(got.trust_store == "/roots.pem");
  REQUIRE(got.log_directory == "/log");
  REQUIRE(got.has_user_namespace);
}

TEST_CASE("shim protocol: an attach request keeps pid, kind and sysctls") {
  AttachRequest sent;
  sent.init_pid = 4194304;
  sent.network = NetworkKind::kPath;
  sent.net_sysctls = {{"net.ipv4.ip_unprivileged_port_start", "0"}};
  const AttachRequest got = parse_attach_request(print(sent)).value();
  REQUIRE(got.init_pid == 4194304);
  REQUIRE(got.network == NetworkKind::kPath);
  REQUIRE(got.net_sysctls == sent.net_sysctls);
}

TEST_CASE("shim protocol: a status report carries the whole registry entry") {
  StatusReport sent;
  sent.entry.container_id = "x";
  sent.entry.n2_inode = 0xffffffffffULL;
  sent.entry.started_us = 1700000000000000;
  sent.entry.network_of = "y";
  sent.proxy_state = "running";
  sent.proxy_pid = 7;
  sent.locked_in = true;
  sent.members = {"m"};
  sent.secrets = {"KEY"};
  sent.inbound_ports = {80, 65535};
  const StatusReport got = parse_status_report(print(sent)).value();
  REQUIRE(got.entry.container_id == "x");
  REQUIRE(got.entry.n2_inode == 0xffffffffffULL);
  REQUIRE(got.entry.started_us == 1700000000000000);
  REQUIRE(got.entry.network_of == "y");
  REQUIRE(got.proxy_state == "running");
  REQUIRE(got.proxy_pid == 7);
  REQUIRE(got.locked_in);
  REQUIRE(got.members == sent.members);
  REQUIRE(got.secrets == sent.secrets);
  REQUIRE(got.inbound_ports == sent.inbound_ports);
}

TEST_CASE("shim protocol: what is missing, of a wrong type or out of range is an error that names it") {
  struct Case {
    const char* json;
    const char* named;
  };
  const Case cases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {R"({"network":"new","net_sysctls":[]})", "'init_pid' is missing"},
      {R"({"init_pid":"1","network":"new","net_sysctls":[]})", "'init_pid'"},
      {R"({"init_pid":4294967296,"network":"new","net_sysctls":[]})", "'init_pid'"},
      {R"({"init_pid":1,"network":"bridge","net_sysctls":[]})", "'network'"},
      {R"({"init_pid":1,"network":"new","net_sysctls":[["a"]]})", "'net_sysctls'"},
  };
  for (const Case& one : cases) {
    auto parsed = parse_attach_request(one.json);
    REQUIRE_FALSE(parsed);
    CHECK_THAT(parsed.error().message(), Catch::Matchers::StartsWith("attach: "));
    CHECK(parsed.error().message().find(one.named) != std::string::npos);
  }
}

TEST_CASE("shim protocol: env that is not UTF-8 does not throw") {
  ExecRequest sent;
  sent.container_id = "c";
  sent.env = {"A=\xff\xfe"};
  REQUIRE(parse_exec_request(print(sent)).value().env.size() == 1);
}
