// Where programs look for the certificates they trust: the paths of the distributions, of Python's
// certifi and of Java, looked up in one container.
//
// A table of known paths and a few directories whose entries are tried; never a walk. What an image
// keeps elsewhere is reached by the variables alone.
#pragma once

#include <string>
#include <vector>

#include "hooks/trust_view.h"

namespace leash::hooks {

enum class PlaceKind {
  kBundle,    // a file of many PEM certificates
  kCertifi,   // the same, within a Python package that pip may replace
  kNamed,     // the same, named by a variable of process.env: its directory may hold anything
  kKeystore,  // Java's cacerts
  kAnchors,   // a directory from which update-ca-certificates or update-ca-trust makes bundles
};

struct FoundPlace {
  PlaceKind kind;
  ContainerView::Place place;
};

// Without doubles, the container's primary bundle first. Bounded in number and time.
[[nodiscard]] std::vector<FoundPlace> find_places(const ContainerView& view, const std::vector<std::string>& env);

// Variables by which programs are told of a bundle: if the image or the user has set one, that file
// gets our certificate too.
[[nodiscard]] const std::vector<std::string_view>& bundle_variables();

}  // namespace leash::hooks
