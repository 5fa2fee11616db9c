#include "oci-spec/proxy_protocol.h"

#include "tests/unit/catch.h"

using namespace leash::oci;

TEST_CASE("proxy protocol: a configuration arrives as it was sent") {
  ProxyConfig sent;
  sent.container_id = "c";
  sent.container_name = "web";
  sent.policy = {"/etc/leash/policy.yaml", "allow: [a]\n"};
  sent.ca_certificate_pem = "CERT\n";
  sent.ca_key_pem = "KEY\n";
  sent.secrets = {{"K", "placeholder", "value", {"h"}, {"x-api-key"}, true}};
  sent.dns_servers = {"127.0.0.11", "9.9.9.9:5353"};
  sent.has_engine_dns = true;
  sent.flows_seq = 0xffffffffffffffffULL;
  sent.blocked_seq = 3;
  const ProxyConfig got = parse_proxy_config(print(sent)).value();
  REQUIRE(got.container_name == "web");
  REQUIRE(got.policy.text == "allow: [a]\n");
  REQUIRE(got.ca_certificate_pem == "CERT\n");
  REQUIRE(got.ca_key_pem == "KEY\n");
  REQUIRE(got.secrets.size() == 1);
  REQUIRE(got.secrets[0].value == "value");
  REQUIRE(got.secrets[0].headers == std::vector<std::string>{"x-api-key"});
  REQUIRE(got.secrets[0].exclusive);
  REQUIRE(got.dns_servers == sent.dns_servers);
  REQUIRE(got.has_engine_dns);
  REQUIRE(got.flows_seq == 0xffffffffffffffffULL);
  REQUIRE(got.blocked_seq == 3);
}

TEST_CASE("proxy_protocol: the facts of a network arrive as they were sent") {
  NetworkFacts sent;
  sent.onlink_networks = {"172.18.0.0/16"};
  sent.never_destinations = {"172.18.0.1", "172.18.0.2"};
  sent.has_engine_dns = true;
  const auto received = parse_network_facts(print(sent));
  REQUIRE(received);
  CHECK(received->onlink_networks == sent.onlink_networks);
  CHECK(received->never_destinations == sent.never_destinations);
  CHECK(received->has_engine_dns);
}

TEST_CASE("proxy protocol: listeners keep their order and kinds") {
  ListenerList sent;
  sent.kinds = {ListenerKind::kTcp, ListenerKind::kDnsOtherTcp, ListenerKind::kDnsEngineUdp,
                ListenerKind::kDnsEngineTcp, ListenerKind::kDnsOtherUdp};
  REQUIRE(parse_listener_list(print(sent)).value().kinds == sent.kinds);
  REQUIRE_FALSE(parse_listener_list(R"({"kinds":["udp"]})"));
}

TEST_CASE("proxy protocol: a problem inside a secret is named by its member") {
  auto parsed = parse_proxy_config(
      R"({"container_id":"","container_name":"","policy":{"source":"","text":""},"ca_certificate_pem":"",)"
      R"("ca_key_pem":"","secrets":[{"name":"A"}],"dns_servers":[],"has_engine_dns":false,)"
      R"("flows_seq":0,"blocked_seq":0})");
  REQUIRE_FALSE(parsed);
  REQUIRE(parsed.error().message() == "configure: 'placeholder' is missing");
}

TEST_CASE("proxy protocol: a question for a process and its answer survive the trip") {
  const WhoRequest request = parse_who_request(print(WhoRequest{7, "172.17.0.2", 40000, "2001:db8::1", 443})).value();
  CHECK(request.tag == 7);
  CHECK(request.source == "172.17.0.2");
  CHECK(request.source_port == 40000);
  CHECK(request.destination == "2001:db8::1");
  CHECK(request.destination_port == 443);
  const WhoReply reply = parse_who_reply(print(WhoReply{7, 17, "a\"b\n\x1b", "/usr/bin/a b"})).value();
  CHECK(reply.tag == 7);
  CHECK(reply.pid == 17);
  CHECK(reply.comm == "a\"b\n\x1b");
  CHECK(reply.exe == "/usr/bin/a b");
  CHECK_FALSE(parse_who_request(R"({"tag":-1,"source":"","source_port":1,"destination":"","destination_port":1})"));
  CHECK_FALSE(parse_who_reply(R"({"tag":1,"pid":"1","comm":"","exe":""})"));
}

TEST_CASE("proxy protocol: a name that is not UTF-8 does not keep the answer from arriving") {
  const WhoReply reply = parse_who_reply(print(WhoReply{1, 2, "\xff\xfe", "/\xc3"})).value();
  CHECK(reply.comm == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(reply.pid == 2);
}

TEST_CASE("proxy protocol: a process is told as pid, name and program, each cut, and not at all without a pid") {
  CHECK(process_text({1, 17, "curl", "/usr/bin/curl"}) == "17 curl (/usr/bin/curl)");
  CHECK(process_text({1, 17, "curl", ""}) == "17 curl");
  CHECK(process_text({1, 0, "curl", "/usr/bin/curl"}).empty());
  CHECK(process_text({1, 1, std::string(1000, 'a'), std::string(1000, 'b')}).size() < 140);
}

TEST_CASE("proxy protocol: a refused packet and a rotation survive the trip") {
  const RefusedPacket packet = parse_refused_packet(print(RefusedPacket{"udp", "10.0.0.1", 53, 60})).value();
  REQUIRE(packet.protocol == "udp");
  REQUIRE(packet.destination == "10.0.0.1");
  REQUIRE(packet.port == 53);
  REQUIRE(packet.bytes == 60);
  REQUIRE(parse_rotate_request(print(RotateRequest{"flows"})).value().log == "flows");
}
