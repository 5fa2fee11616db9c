#include "proxy/secret_store.h"

#include <openssl/crypto.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "proxy/base64.h"

namespace leash::proxy {

namespace {

size_t whole_pages(size_t length) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return std::max<size_t>(1, (length + page - 1) / page) * page;
}

std::string hexadecimal(std::string_view text, const char* digits) {
  std::string out;
  for (const char c : text) {
    out += digits[static_cast<uint8_t>(c) >> 4];
    out += digits[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += hexadecimal(std::string_view(&c, 1), "0123456789ABCDEF");
    }
  }
  return out;
}

// The characters of base64 that depend on `text` alone when `skipped` (0..2) bytes stand before it and
// anything behind it.
std::string base64_core(std::string_view text, size_t skipped) {
  std::string padded(skipped, '\0');
  padded += text;
  const std::string encoded = base64_encode(padded);
  const size_t first = skipped == 0 ? 0 : skipped + 1;
  const size_t last = padded.size() * 8 / 6;  // whole characters
  return encoded.substr(first, last - first);
}

void add_pair(std::vector<Replacement>& list, std::string pattern, std::string replacement) {
  // The placeholder's encoding may be of another length (percent signs): padded or cut alike.
  replacement.resize(pattern.size(), 'x');
  list.push_back({std::move(pattern), std::move(replacement)});
}

std::string url_safe(std::string text) {
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

void add_forms(std::vector<Replacement>& list, const Secret& secret) {
  const std::string_view value = secret.value.view();
  add_pair(list, std::string(value), secret.masked);
  for (size_t skipped = 0; skipped < 3; ++skipped) {
    const std::string core = base64_core(value, skipped);
    const std::string masked = base64_core(secret.masked, skipped);
    add_pair(list, core, masked);
    if (url_safe(core) != core) add_pair(list, url_safe(core), url_safe(masked));
  }
  add_pair(list, hexadecimal(value, "0123456789abcdef"), hexadecimal(secret.masked, "0123456789abcdef"));
  add_pair(list, hexadecimal(value, "0123456789ABCDEF"), hexadecimal(secret.masked, "0123456789ABCDEF"));
  if (const std::string encoded = percent_encoded(value); encoded != value) {
    add_pair(list, encoded, percent_encoded(secret.masked));
  }
}

}  // namespace

void wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

Result<LockedText> LockedText::create(std::string_view text) {
  LockedText locked;
  const size_t size = whole_pages(text.size());
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error::last_errno("map a secret");
  locked.memory_ = static_cast<char*>(memory);
  locked.length_ = text.size();
  // Swap is not the container's, and RLIMIT_MEMLOCK may be small: without the lock the value is still
  // nowhere that the container can see.
  (void)::mlock(memory, size);
  if (::madvise(memory, size, MADV_DONTDUMP) < 0) return Error::last_errno("madvise a secret");
  std::memcpy(memory, text.data(), text.size());
  return locked;
}

LockedText::~LockedText() {
  if (memory_ == nullptr) return;
  OPENSSL_cleanse(memory_, length_);
  ::munmap(memory_, whole_pages(length_));
}

LockedText::LockedText(LockedText&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), length_(std::exchange(other.length_, 0)) {}

LockedText& LockedText::operator=(LockedText&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(length_, other.length_);
  return *this;
}

bool Secret::is_for(std::string_view host) const {
  return std::any_of(hosts.begin(), hosts.end(), [&](const oci::HostPattern& pattern) { return pattern.matches(host); });
}

Result<void> SecretStore::add(oci::ProxySecret&& document) {
  Secret secret;
  secret.name = document.name;
  secret.placeholder = document.placeholder;
  if (secret.placeholder.size() < PatternSet::kMinimum) return Error("secret '" + secret.name + "': placeholder is too short");
  secret.masked = document.placeholder;
  secret.masked.resize(document.value.size(), 'x');
  TRY(secret.value, LockedText::create(document.value).context("secret '" + secret.name + "'"));
  wipe(document.value);
  for (const std::string& text : document.hosts) {
    TRY(oci::HostPattern pattern, oci::HostPattern::parse(text, false).context("secret '" + secret.name + "'"));
    secret.hosts.push_back(std::move(pattern));
  }
  for (std::string header : document.headers) {
    std::transform(header.begin(), header.end(), header.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    secret.headers.push_back(std::move(header));
  }
  secret.exclusive = document.exclusive;
  std::erase_if(secrets_, [&](const Secret& known) { return known.placeholder == secret.placeholder; });
  secrets_.push_back(std::move(secret));
  patterns_.clear();
  return {};
}

std::shared_ptr<const PatternSet> SecretStore::patterns_for(std::string_view host) {
  std::vector<size_t> meant;
  for (size_t i = 0; i < secrets_.size(); ++i) {
    if (secrets_[i].is_for(host)) meant.push_back(i);
  }
  if (meant.empty()) return nullptr;
  std::shared_ptr<const PatternSet>& set = patterns_[meant];
  if (set == nullptr) {
    std::vector<Replacement> list;
    for (const size_t i : meant) add_forms(list, secrets_[i]);
    set = std::make_shared<const PatternSet>(std::move(list));
  }
  return set;
}

}  // namespace leash::proxy
