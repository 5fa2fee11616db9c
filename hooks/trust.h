// How programs inside a container come to trust their own proxy without a change to the image.
//
// Each container has a certificate authority of its own; its key goes to the proxy and nowhere else.
// The certificate reaches programs in three ways, since no single one reaches all of them:
//
//   1. /dev/leash/{ca.pem,bundle.pem}: public files on the container's own /dev, where the image has
//      no path to change, and variables that point there (for curl, requests, node, grpc, ...);
//   2. an overlay of each directory that holds a bundle (OpenSSL, GnuTLS, Go, RHEL's, SUSE's, Nix's,
//      certifi's, Java's), for programs that read no variable. The directory and not the file: a bind
//      over the file makes `apt-get install ca-certificates` fail with EBUSY, and writing the file
//      would show in `docker diff`;
//   3. the same for the source directories of update-ca-certificates and update-ca-trust, so that
//      running those inside keeps our certificate.
//
// The image is hostile: everything below the rootfs is opened by descriptor, only regular files are
// read, and sizes, counts and time are bounded. What is found there is read and copied, never written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::hooks {

struct Authority {
  std::string key_pem;          // PKCS#8, P-256; secret
  std::string certificate_pem;  // self-signed, CA:TRUE with path length 0
};

// A new authority whose common name carries `container_id`. About 0.3 ms.
[[nodiscard]] Result<Authority> create_authority(std::string_view container_id);

struct TrustRequest {
  std::string rootfs;                    // absolute, on the host
  std::vector<oci::ExtraMount> mounts;   // config.json's own, as they will lie over the rootfs
  std::vector<std::string> env;          // process.env
  std::string certificate_pem;           // Authority::certificate_pem
  std::string directory;                 // /run/leash/<id>/trust: created here, 0700, ours alone
  bool read_only_rootfs = false;         // config.json's root.readonly: the overlays are read-only too
};

struct TrustPlan {
  // In this order, after config.json's own mounts. Destinations are to be resolved inside the rootfs
  // and exist, but for /dev/leash. Types: "bind" (a directory, or a file over a file) and
  // "leash-overlay", which runtime/trust_overlay.h mounts.
  std::vector<oci::ExtraMount> mounts;
  // "NAME=value" for variables that process.env does not have. Exec needs the same ones.
  std::vector<std::string> variables;
};

// Lays out `directory` and says what to mount. Nothing is mounted on the host: to take it back, remove
// the directory.
[[nodiscard]] Result<TrustPlan> prepare_trust(const TrustRequest& request);

// The trust variables that `env` lacks: of prepare_trust, and of each exec.
[[nodiscard]] std::vector<std::string> missing_trust_variables(const std::vector<std::string>& env);

}  // namespace leash::hooks
