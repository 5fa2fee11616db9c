// What lives as long as the process and serves every connection. Made by main, borrowed by the
// listener, connections and exchanges; the parts themselves take only what they need.
#pragma once

#include "oci-spec/policy.h"
#include "proxy/body_digest.h"
#include "proxy/buffer.h"
#include "proxy/flow.h"
#include "proxy/leaf_mint.h"
#include "proxy/origin_pool.h"
#include "proxy/process_names.h"
#include "proxy/resolver.h"
#include "proxy/secret_store.h"
#include "proxy/tls_context.h"
#include "proxy/watchdog.h"

namespace leash::proxy {

struct Services {
  asio::io_context& context;
  Watchdog& watchdog;
  BlockPool& blocks;
  const oci::Policy& policy;
  Resolver& resolver;
  OriginPool& pool;
  ServerTls& server_tls;
  SecretStore& secrets;
  FlowLog& flows;
  ProcessNames& processes;
  const DigestMethod& sha256;
};

}  // namespace leash::proxy
