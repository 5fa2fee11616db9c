// The built-in profile: what applies to a container that nobody wrote a policy for. Kept as the YAML
// that a person would write, so that `leash policy explain` can show it and everyone can copy it.
#include "oci-spec/policy.h"

namespace leash::oci {
namespace {

constexpr std::string_view kProfile = R"yaml(# The built-in profile of leash: the hosts that Claude Code, Codex, Gemini CLI and Grok need.
version: 1
mode: enforce

allow:
  # Claude Code
  - {host: api.anthropic.com, exact: true}
  - {host: claude.ai, exact: true}                  # login with a subscription
  - {host: console.anthropic.com, exact: true}
  - {host: platform.claude.com, exact: true}
  # Codex
  - {host: api.openai.com, exact: true}
  - {host: auth.openai.com, exact: true}            # login with ChatGPT
  - {host: chatgpt.com, exact: true}
  # Gemini CLI
  - {host: generativelanguage.googleapis.com, exact: true}
  - {host: cloudcode-pa.googleapis.com, exact: true}  # login with Google
  - {host: oauth2.googleapis.com, exact: true}
  # Grok
  - {host: api.x.ai, exact: true}
  # GitHub, read-only: clone and fetch, no push, no issues, no gists
  - {host: api.github.com, exact: true, methods: [GET, HEAD]}
  - {host: github.com, exact: true, methods: [GET, HEAD]}
  - {host: github.com, exact: true, methods: [POST], paths: ["/*/*/git-upload-pack"]}

private: deny

secrets:
  - env: ANTHROPIC_API_KEY
    hosts: [api.anthropic.com]
    headers: [x-api-key, authorization]
  - env: OPENAI_API_KEY
    hosts: [api.openai.com]
    headers: [authorization]
  - env: GEMINI_API_KEY
    hosts: [generativelanguage.googleapis.com]
    headers: [x-goog-api-key, authorization]
  - env: GOOGLE_API_KEY
    hosts: [generativelanguage.googleapis.com]
    headers: [x-goog-api-key, authorization]
  - env: XAI_API_KEY
    hosts: [api.x.ai]
    headers: [authorization, x-api-key]
  - env: GITHUB_TOKEN
    hosts: [api.github.com, github.com]
    headers: [authorization]
)yaml";

}  // namespace

std::string_view built_in_policy() { return kProfile; }

}  // namespace leash::oci
