// Podman copies the annotations of an image's manifest into config.json, where they look like those that
// a person gave with --annotation. An image must not choose its policy: an annotation leash.policy that
// any image of Podman's store has with that very value is refused.
//
// Podman is known by where its bundles lie, <store>/<driver>-containers/<id>/userdata, which no image can
// set; its images are in <store>/<driver>-images. Docker and containerd hand on no image's annotations.
#pragma once

#include <string>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

[[nodiscard]] Result<void> check_not_from_image(const std::string& bundle, const oci::Config& config);

}  // namespace leash::runtime
