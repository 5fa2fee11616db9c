#include "oci-spec/engine_files.h"

#include "tests/unit/catch.h"

using namespace leash::oci;

TEST_CASE("engine files: published and exposed TCP ports are merged, UDP is left out") {
  const auto facts = parse_docker_files(
                         R"({"ID":"abc","Name":"/web","Config":{"ExposedPorts":{"80/tcp":{},"53/udp":{},"8000-8010/tcp":{}}}})",
                         R"({"NetworkMode":"default","PortBindings":{"80/tcp":[{"HostIp":"","HostPort":"8080"}],"8011/tcp":null,"9000":[]}})")
                         .value();
  REQUIRE(facts.container_id == "abc");
  REQUIRE(facts.name == "web");
  REQUIRE(facts.tcp_ports == std::vector<TcpPorts>{{80, 80}, {8000, 8011}, {9000, 9000}});
}

TEST_CASE("engine files: null and absent port maps mean that nothing comes in") {
  REQUIRE(parse_docker_files(R"({"Config":{"ExposedPorts":null}})", R"({"PortBindings":null})").value().tcp_ports.empty());
  REQUIRE(parse_docker_files("{}", "{}").value().tcp_ports.empty());
}

TEST_CASE("engine files: what is not a port is an error, never a wider range") {
  for (const char* key : {"0/tcp", "65536/tcp", "80-/tcp", "-80/tcp", "90-80/tcp", "/tcp", "http/tcp", "80 /tcp"}) {
    INFO(key);
    REQUIRE_FALSE(parse_port_key(key));
  }
  REQUIRE_FALSE(parse_docker_files("[]", "{}"));
  REQUIRE_FALSE(parse_docker_files("{}", R"({"PortBindings":["80/tcp"]})"));
}
